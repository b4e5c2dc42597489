"""Runs the HTTP server that receives change events."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

from tidegauge.cli.address import listening
from tidegauge.errors import SpecError
from tidegauge.model.source import Location
from tidegauge.source.batch.names import secret
from tidegauge.source.debezium.kind import open_files
from tidegauge.source.debezium.spec import DebeziumSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from fastapi import FastAPI

    from tidegauge.plan.spec.declaration import GaugeSpec


def receive(spec: GaugeSpec, base: Path, listen: str, say: Callable[[str], None]) -> None:
    """Receive change events into the gauge's inbox until interrupted.

    Raises SpecError if the declared source has no inbox.
    """
    source = spec.source
    if not isinstance(source, DebeziumSpec) or source.inbox is None:
        raise SpecError(
            "is not declared: serve receives change events into the inbox of a source of kind debezium "
            "(docs/sources/debezium.md)",
            key="source.inbox",
        )
    try:
        import uvicorn  # noqa: PLC0415 - an extra

        from tidegauge.receive.app import create_app  # noqa: PLC0415
    except ImportError:
        raise SpecError("serve needs the extra 'serve': pip install '.[serve]'") from None
    from tidegauge.receive.gatekeeper import Gatekeeper  # noqa: PLC0415
    from tidegauge.source.debezium.inbox import Inbox  # noqa: PLC0415

    proofs = {
        name: secret(reference, key=f"source.{name}")
        for name, reference in (("token", source.token), ("signing_secret", source.signing_secret))
        if reference is not None
    }
    gatekeeper = Gatekeeper(**proofs)
    read = open_files(source, Location(base, base / "tidegauge.db"))
    read.select(_mentioned(spec, read.columns))
    door = listening(listen)
    with closing(door), closing(Inbox(base / source.inbox, read.reading)) as inbox:
        app: FastAPI = create_app(inbox=(inbox, gatekeeper))
        config = uvicorn.Config(
            app, access_log=False, log_level="warning", proxy_headers=False, server_header=False
        )
        host, port = door.getsockname()[:2]
        say(f"Receiving change events at http://{host}:{port}/debezium until interrupted.")
        uvicorn.Server(config).run(sockets=[door])


def _mentioned(spec: GaugeSpec, columns: Collection[str]) -> set[str]:
    """The columns whose name occurs in the declaration.  The types of the other columns may change."""
    declared = spec.canonical()
    words = json.dumps({name: part for name, part in declared.items() if name != "source"}).casefold()
    return {name for name in columns if json.dumps(name)[1:-1].casefold() in words}
