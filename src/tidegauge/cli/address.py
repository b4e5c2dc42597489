"""The address that a server listens on."""

from __future__ import annotations

import socket

from tidegauge.errors import SpecError


def listening(listen: str) -> socket.socket:
    """A listening socket at HOST:PORT; port 0 takes any free port.  Raises SpecError."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise SpecError("must be HOST:PORT, for example 127.0.0.1:8321", key="--listen")
    host = host.strip("[]")
    try:
        family = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, int(port)), family=family, backlog=128)
    except OSError as error:
        raise SpecError(f"cannot listen on this address ({error.strerror})", key="--listen") from None
