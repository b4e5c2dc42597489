"""tidegauge stamp: write a changelog stamped for a plan, and open it for the first run of that plan."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from tidegauge.engine.registry import open_engine, open_stamper, stamps_of
from tidegauge.errors import SpecError, StoreError
from tidegauge.model.quantity import rfc3339
from tidegauge.model.stamp import StampEngine, StampReader
from tidegauge.run.ready import require_ready

if TYPE_CHECKING:
    from tidegauge.model.history import Report
    from tidegauge.model.source import OpenSource
    from tidegauge.model.stamp import Stamped
    from tidegauge.plan.plan import Plan
    from tidegauge.plan.spec.declaration import GaugeSpec
    from tidegauge.run.reader import StoreFile
    from tidegauge.store.store import Store

_NOTHING = "Nothing was written."
_INSTEAD = f"{_NOTHING} Run it on the changelog itself: tidegauge run"


def stamp(
    plan: Plan,
    spec: GaugeSpec,
    source: OpenSource,
    folder: Path,
    *,
    limit: int,
    key: bytes | None = None,
    report: Report | None = None,
) -> Path:
    """Write everything up to the last bin that has ended by `limit` into a new folder, and return it.

    `key`: of an encrypted store; the folder is then encrypted as well.
    Raises SpecError where the gauge cannot be stamped, and SourceError where the changelog cannot be read or
    the folder exists.
    """
    from tidegauge.store.secret.stamped import Origin, stamping  # noqa: PLC0415  (slow to load)

    _require_stampable(plan, spec)
    ends = (one.release.schedule.last_end(0, limit) for one in plan.releases)
    reached = max((end for end in ends if end is not None), default=None)
    if reached is None:
        raise SpecError(f"no reading is due yet, so there is nothing to stamp. {_NOTHING}")
    with open_stamper(spec.engine.kind, plan.program, plan.columns) as engine:
        if not isinstance(engine, StampEngine):
            raise SpecError(f"this engine does not stamp. {_INSTEAD}", key="engine.kind")
        require_ready(source, plan.program.wanted(source.columns))
        history = None if source.follows else source.history(reached)
        if history is None:
            raise SpecError(
                f"only a source of kind files can be stamped: it knows its past. {_INSTEAD}",
                key="source.kind",
            )
        with closing(history):
            origin = Origin(plan.hash, engine.layout.tables(), reached, history.position)
            with stamping(folder, origin, key=key) as writer:
                stamps = engine.stamp(
                    history,
                    reached=reached,
                    write=lambda changes: writer.write("changes", changes),
                    report=report or (lambda _, __: None),
                )
                writer.finish(stamps)
    return folder


def require_own_key(folder: str | Path | None, file: StoreFile) -> None:
    """Refuse a stamped changelog of another key before there is a store, which would have the wrong one.

    Raises SourceError.
    """
    from tidegauge.store.secret.stamped import require_key  # noqa: PLC0415  (slow to load)

    if folder is not None and not file.path.exists():
        require_key(Path(folder), file.key())


def open_for(
    plan: Plan,
    spec: GaugeSpec,
    store: Store,
    folder: Path,
    *,
    now: int,
    limit: int | None,
    key: bytes | None = None,
) -> Stamped:
    """The stamped changelog that the first run of a plan begins with.  Changes nothing.

    `key`: of an encrypted store.
    Raises StoreError where this is not the first run, and SourceError unless it was stamped for this plan.
    """
    from tidegauge.store.secret.stamped import open_stamped  # noqa: PLC0415  (slow to load)

    if store.public.plan is not None and store.secret.clock.position is not None:
        raise StoreError(
            "the store has read changes already, and a stamped changelog is for a first run. Nothing was "
            "read or spent. Go on with: tidegauge run"
        )
    _require_stampable(plan, spec)
    with open_engine(spec.engine.kind, plan.program, plan.columns) as engine:
        if not isinstance(engine, StampReader):
            raise SpecError(f"this engine does not read stamped changelogs. {_INSTEAD}", key="engine.kind")
    with open_stamper(spec.engine.kind, plan.program, plan.columns) as stamper:
        found = open_stamped(folder, plan=plan.hash, layout=stamper.layout.tables(), key=key)
    ends = now if limit is None else min(now, limit)
    if found.upto > ends:
        raise SpecError(
            f"it was stamped up to {rfc3339(found.upto)}, and this run ends earlier. Nothing was read or "
            "spent. Run longer, or stamp it again with the same --until",
            key="--stamped",
        )
    return found


def _require_stampable(plan: Plan, spec: GaugeSpec) -> None:
    """Raise SpecError for a gauge that cannot be stamped, whatever its engine."""
    if spec.store.key is not None and stamps_of(spec.engine.kind) != spec.engine.kind:
        raise SpecError(
            f"the store is encrypted, and the engine '{spec.engine.kind}' cannot read an encrypted stamped "
            f"changelog: it has nothing that would hand out the key. {_INSTEAD}",
            key="store.key",
        )
    if plan.choice is not None:
        raise SpecError(
            f"'auto' is chosen by the first run itself. {_NOTHING} Write at_most as a number, or run the "
            "gauge on the changelog itself: tidegauge run",
            key="constraint.at_most",
        )
    if len(plan.parts) > 1:
        raise SpecError(f"releases were added to this gauge, so it cannot be stamped. {_INSTEAD}")
