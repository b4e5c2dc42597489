"""The declared publishers of a gauge, and the block in which they deliver while it runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidegauge.errors import SpecError
from tidegauge.model.kinds import PUBLISHERS
from tidegauge.model.publisher import Place
from tidegauge.publish.outbox import Opened, Outbox, Sender
from tidegauge.source.batch.names import secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tidegauge.model.declared import PublisherSpec
    from tidegauge.plan.plan import Plan
    from tidegauge.publish.outbox import Failure
    from tidegauge.store.public.part import PublicPart


def open_senders(
    declared: Mapping[str, PublisherSpec],
    plan: Plan,
    *,
    base: Path,
    store: Path,
    public: Callable[[], AbstractContextManager[PublicPart]],
    only: str | None = None,
) -> list[Sender]:
    """The declared publishers, or one of them.  Raises SpecError where a secret of one is missing."""
    return [
        Sender(PUBLISHERS.named(spec.kind), spec, _place(name, base), Opened(plan, store, public))
        for name, spec in declared.items()
        if only in (None, name)
    ]


def require_declared(declared: Mapping[str, PublisherSpec], only: str | None) -> None:
    """Raise SpecError where no publisher is declared, or none of this name."""
    if not declared or (only is not None and only not in declared):
        known = ", ".join(declared) or "none: declare [publish.NAME] with a kind"
        raise SpecError(f"there is no such publisher; there is {known}", key=f"publish.{only or 'NAME'}")


def _place(name: str, base: Path) -> Place:
    def resolve(reference: str, key: str) -> str:
        return secret(reference, key=f"publish.{name}.{key}")

    return Place(name, base, resolve)


@contextmanager
def delivering(
    senders: list[Sender], until: int, failed: Callable[[list[Failure]], object]
) -> Iterator[Callable[[int], None]]:
    """A block in which publishers deliver; yields what is called after each commit.

    At the end of the block everything is delivered, or was tried once more; `failed` gets the publishers that
    could not.  Where the block is left by an exception, what is not delivered stays in the outbox.
    """
    if not senders:
        yield lambda _: None
        return
    outbox = Outbox(senders)
    outbox.start(until)
    try:
        yield outbox.release
    except BaseException:
        outbox.abandon()
        raise
    failed(outbox.finish())


def waiting(senders: list[Sender], part: PublicPart) -> dict[str, int]:
    """Of each publisher, how many readings it still has to deliver."""
    return {sender.name: sender.waiting(part) for sender in senders}
