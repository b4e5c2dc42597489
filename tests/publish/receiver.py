"""A webhook's receiver that answers as a test says, and remembers what it got."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """What arrived, and the status that is answered."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.status = 204
        self.hold = threading.Event()
        self.hold.set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"

    @property
    def readings(self) -> dict[str, dict[str, Any]]:
        """What arrived, once by its key and place."""
        return {
            json.dumps([one["release"], one["time"], one["group"]]): one
            for _, body in self.requests
            for one in json.loads(body)["readings"]
        }


@contextmanager
def receiver() -> Iterator[Receiver]:
    got = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            got.hold.wait()
            self.send_response(got.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    got.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield got
    finally:
        got.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
