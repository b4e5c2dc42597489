// What a pointer, the arrow keys and new readings add to a page.  Everything else works without this script.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const TOO_SMALL = "too small to tell";
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

/** "a b*3" is [a, b, b, b]. */
const counted = (text) =>
  text.split(" ").filter(Boolean).flatMap((word) => {
    const [value, times] = word.split("*");
    return Array(Number(times ?? 1)).fill(value);
  });

function timesOf(text) {
  const [first, ...steps] = counted(text).map(Number);
  const found = [first];
  for (const step of steps) found.push(found.at(-1) + step);
  return found;
}

/** The value with thousands separators, with as many decimals as the page was given. */
const pretty = (text) => {
  const decimals = (text.split(".")[1] ?? "").length;
  const options = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return Number(text).toLocaleString("en", options).replace("-", "\u2212");
};

function when(seconds, daily) {
  const at = new Date(seconds * 1000);
  const day = `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}`;
  return daily ? day : `${day}, ${at.toISOString().slice(11, 16)} UTC`;
}

class Chart {
  constructor(svg) {
    this.svg = svg;
    this.box = svg.dataset.box.split(" ").map(Number);
    this.span = svg.dataset.span.split(" ").map(Number);
    this.scale = svg.dataset.scale.split(" ").map(Number);
    this.times = timesOf(svg.dataset.times);
    this.daily = this.times.every((at) => at % 86400 === 0);
    this.series = [...svg.querySelectorAll(".series[data-values]")].map((group) => ({
      group,
      label: group.dataset.label ?? "",
      colour: [...group.classList].find((name) => /^s\d$/.test(name)) ?? "s0",
      values: group.dataset.values.split(" "),
      halves: counted(group.dataset.halves ?? ""),
      small: counted(group.dataset.small ?? ""),
    }));
    this.at = null;
    const holder = (this.holder = svg.parentElement);
    holder.tabIndex = 0;
    holder.setAttribute("role", "group");
    const title = document.getElementById(svg.getAttribute("aria-labelledby")).textContent;
    holder.setAttribute("aria-label", `${title}. Arrow keys read the values.`);
    holder.addEventListener("pointermove", (event) => this.point(event));
    holder.addEventListener("pointerdown", (event) => this.point(event));
    holder.addEventListener("pointerleave", () => this.clear());
    holder.addEventListener("blur", () => this.clear());
    holder.addEventListener("keydown", (event) => this.key(event));
  }

  x(time) {
    const [left, , right] = this.box;
    const [first, last] = this.span;
    return left + ((time - first) / (last - first || 1)) * (right - left);
  }

  y(value) {
    const [, top, , bottom] = this.box;
    const [low, high] = this.scale;
    return bottom - ((value - low) / (high - low || 1)) * (bottom - top);
  }

  point(event) {
    const area = this.svg.getBoundingClientRect();
    const x = ((event.clientX - area.left) / area.width) * this.svg.viewBox.baseVal.width;
    let best = 0;
    this.times.forEach((time, index) => {
      if (Math.abs(this.x(time) - x) < Math.abs(this.x(this.times[best]) - x)) best = index;
    });
    this.show(best, false);
  }

  key(event) {
    const last = this.times.length - 1;
    const to = {
      ArrowLeft: Math.max(0, (this.at ?? last + 1) - 1),
      ArrowRight: Math.min(last, (this.at ?? last - 1) + 1),
      Home: 0,
      End: last,
    }[event.key];
    if (event.key === "Escape") this.clear();
    if (to === undefined || event.target !== this.holder) return;
    event.preventDefault();
    this.show(to, true);
  }

  shown() {
    return this.series.filter((one) => getComputedStyle(one.group).display !== "none");
  }

  show(index, aloud) {
    this.clear();
    this.at = index;
    const time = this.times[index];
    const x = this.x(time);
    const [, top, , bottom] = this.box;
    this.layer = document.createElementNS(SVG, "g");
    const line = document.createElementNS(SVG, "path");
    line.setAttribute("d", `M${x} ${top}V${bottom}`);
    line.setAttribute("class", "cursor");
    this.layer.append(line);
    this.tip = document.createElement("div");
    this.tip.className = "tip";
    const head = document.createElement("b");
    head.textContent = when(time, this.daily);
    this.tip.append(head);
    const words = [head.textContent];
    for (const one of this.shown()) {
      const value = one.values[index];
      if (value === undefined) continue;
      const half = one.halves[index];
      const margin = Number(half) ? ` \u00b1 ${pretty(half)}` : "";
      const number = value === "-" ? "" : `${pretty(value)}${margin}`;
      const hidden = number ? `${TOO_SMALL} (${number})` : TOO_SMALL;
      const said = one.small[index] === "1" ? hidden : number;
      const row = document.createElement("span");
      if (one.label) {
        const dot = document.createElement("i");
        dot.className = one.colour;
        row.append(dot);
      }
      row.append(one.label ? `${one.label}: ${said}` : said);
      this.tip.append(row);
      words.push(one.label ? `${one.label} ${said}` : said);
      if (value === "-") continue;
      const mark = document.createElementNS(SVG, "circle");
      mark.setAttribute("class", `here ${one.colour}`);
      mark.setAttribute("r", 5);
      mark.setAttribute("cx", x);
      mark.setAttribute("cy", this.y(Number(value)));
      this.layer.append(mark);
    }
    this.svg.append(this.layer);
    this.holder.append(this.tip);
    this.place(x);
    if (aloud) speak(words.join(", "));
  }

  place(x) {
    const width = this.holder.clientWidth;
    const inside = this.svg.getBoundingClientRect().left - this.holder.getBoundingClientRect().left;
    const left = (x / this.svg.viewBox.baseVal.width) * this.svg.clientWidth + inside;
    const own = this.tip.offsetWidth;
    const to = left + 14 + own > width ? left - 14 - own : left + 14;
    // Setting a property of the style object is allowed by the policy; a style attribute in the page is not.
    this.tip.style.left = `${Math.max(0, Math.min(to, width - own))}px`;
    this.tip.style.top = `${this.svg.offsetTop ?? 0}px`;
  }

  clear() {
    this.layer?.remove();
    this.tip?.remove();
    this.at = null;
  }
}

/** Says words to a screen reader. */
function speak(words) {
  let voice = document.getElementById("voice");
  if (!voice) {
    voice = document.createElement("p");
    voice.id = "voice";
    voice.className = "hide";
    voice.setAttribute("aria-live", "polite");
    document.body.append(voice);
  }
  voice.textContent = words;
}

function begin() {
  document.querySelectorAll("svg.chart[data-times]").forEach((svg) => {
    if (svg.dataset.times) new Chart(svg);
  });
}

/** New readings: take the page again and put its content in place; choices and open parts are kept. */
async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (fresh.body.dataset.seal === document.body.dataset.seal) return;
  for (const box of document.querySelectorAll("input.pick[id]")) {
    const other = fresh.getElementById(box.id);
    if (other) other.checked = box.checked;
  }
  document.querySelectorAll("details").forEach((one, index) => {
    const other = fresh.querySelectorAll("details")[index];
    if (other) other.open = one.open;
  });
  const focused = document.activeElement?.id;
  for (const part of ["main", "footer"])
    document.querySelector(part).replaceWith(document.adoptNode(fresh.querySelector(part)));
  document.body.dataset.seal = fresh.body.dataset.seal ?? "";
  if (focused) document.getElementById(focused)?.focus();
  begin();
  speak("New readings were published.");
}

function follow() {
  const address = document.body.dataset.events;
  if (!address || !window.EventSource) return;
  const source = new EventSource(address);
  let waiting = null;
  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => refresh().catch(() => undefined), 300);
  };
  for (const name of ["message", "seal", "readings", "tick"]) source.addEventListener(name, soon);
  addEventListener("pagehide", () => source.close());
}

addEventListener("beforeprint", () => {
  for (const one of document.querySelectorAll("details")) one.open = true;
});
begin();
follow();
