"""An application behind a real socket, in this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn


@contextmanager
def serving(app: Any) -> Iterator[httpx.Client]:
    """A client of the application; the server ends with the block."""
    config = uvicorn.Config(
        app, log_level="critical", server_header=False, date_header=False, timeout_graceful_shutdown=1
    )
    server, door = uvicorn.Server(config), socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{door.getsockname()[1]}", timeout=60) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
        door.close()
