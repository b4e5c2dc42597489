"""The verbs `publish` and `serve`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.ending import ENDING
from tidegauge.cli.options import DEFAULT, LISTEN, File, Json, StoreFile
from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from tidegauge.publish.outbox import Failure


def publish(
    name: Annotated[str | None, typer.Argument(help="Only this publisher.", metavar="NAME")] = None,
    file: File = DEFAULT,
    store: StoreFile = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            help="Deliver what is committed, then exit. The verb always does this.",
            show_default=False,
        ),
    ] = True,
    as_json: Json = False,
) -> None:
    """Deliver what waits in the outbox.  A running `tidegauge run` does this by itself."""
    from tidegauge.run.gauge import Gauge  # noqa: PLC0415

    del once
    gauge = Gauge.from_file(file, store=store, sleep=time.sleep)
    delivered = gauge.publish(name)
    if as_json:
        failed = {one.name: one.reason for one in gauge.undelivered}
        typer.echo(json.dumps({"delivered": delivered, "failed": failed}, ensure_ascii=False, indent=2))
    else:
        typer.echo(f"{delivered:,} reading{'' if delivered == 1 else 's'} delivered.")
        show_undelivered(gauge.undelivered)
    if gauge.undelivered:
        raise typer.Exit(2)


def show_undelivered(failures: list[Failure]) -> None:
    """Print one line to stderr for each publisher that could not deliver."""
    for one in failures:
        typer.echo(
            f"Publisher '{one.name}' failed: {one.reason.rstrip('.')}. Its readings stay in the outbox; "
            "the next run, or tidegauge publish --once, delivers them.",
            err=True,
        )


def serve(
    public: Annotated[
        Path | None,
        typer.Argument(
            help="The public file; default: the one that the declaration publishes.", metavar="PATH"
        ),
    ] = None,
    file: File = DEFAULT,
    listen: Annotated[str, typer.Option(help="Address to listen on, HOST:PORT.")] = LISTEN,
    inbox: Annotated[
        bool, typer.Option("--inbox", help="Receive Debezium events instead, into the declared inbox.")
    ] = False,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes that answer requests.")] = 1,
    child: Annotated[int | None, typer.Option("--child", hidden=True)] = None,
) -> None:
    """Serve a public file over HTTP: pages and API.

    Without a public file, and with an inbox declared, it receives Debezium events.  Another process runs the
    gauge.
    """
    from tidegauge.cli.web import answer_as_child, public_file, serve_public  # noqa: PLC0415

    if child is not None and public is not None:
        answer_as_child(public, child)
        return
    if public is None or inbox:
        from tidegauge.cli.serving import receive  # noqa: PLC0415
        from tidegauge.plan.spec.declaration import load  # noqa: PLC0415
        from tidegauge.source.debezium.spec import DebeziumSpec  # noqa: PLC0415

        spec = load(file)
        if inbox and public is not None:
            raise SpecError("takes no public file: it receives events", key="--inbox")
        public = None if inbox else public_file(spec, file.parent)
        if public is None:
            if not inbox and not (isinstance(spec.source, DebeziumSpec) and spec.source.inbox):
                raise SpecError(
                    "declare a publisher of kind public ([publish.NAME]), or name a public file: tidegauge "
                    "serve FILE",
                    key="publish",
                )
            with ENDING.careful():
                receive(spec, file.parent, listen, typer.echo)
            return
    with ENDING.careful():
        serve_public(public, listen, workers=workers, say=typer.echo)
