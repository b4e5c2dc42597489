// A browser runs no worker for a page that was opened from the disk.  The search of the site is a worker, so
// on such a page an invisible frame runs its script instead.  Zensical looks for this file by its name.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.onmessage = this.onerror = this.onmessageerror = null;
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.onmessage && this.onmessage({ data }));
      const script = this.frame.contentDocument.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = () => {
        for (const data of this.waiting.splice(0)) inside.onmessage({ data });
        this.waiting = null;
      };
      script.onerror = (event) => this.onerror && this.onerror(event);
      this.frame.contentDocument.body.append(script);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.onmessage({ data });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
