"""The engines that a declaration can name.  A new engine is one folder and one line below."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model.engine import EngineKind, KeepingEngine
from tidegauge.model.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tidegauge.model.engine import Engine
    from tidegauge.model.grid import GridEngine, Variant
    from tidegauge.model.program import Program


def _duckdb(program: Program, columns: Mapping[str, str]) -> Engine:
    from tidegauge.engine.duckdb.engine import DuckEngine  # noqa: PLC0415  (loaded when first used)

    return DuckEngine(program, columns)


def _duckdb_grid(
    program: Program, columns: Mapping[str, str], variants: Sequence[Sequence[Variant]]
) -> GridEngine:
    from tidegauge.engine.duckdb.grid import DuckGrid  # noqa: PLC0415  (loaded when first used)

    return DuckGrid(program, columns, variants)


def _spark(program: Program, columns: Mapping[str, str]) -> Engine:
    from tidegauge.engine.spark.engine import SparkEngine  # noqa: PLC0415  (loaded when first used)

    return SparkEngine(program, columns)


ENGINES: Final[Registry[EngineKind]] = Registry("a kind of engine")
for _kind in (
    EngineKind("duckdb", _duckdb, _duckdb_grid),
    EngineKind(
        "spark",
        _spark,
        sources=frozenset({"spark", "files"}),
        stamps="duckdb",
    ),
):
    ENGINES.register(_kind.name, _kind)


def open_grid(
    kind: str, program: Program, columns: Mapping[str, str], variants: Sequence[Sequence[Variant]]
) -> GridEngine:
    """An engine of this kind that computes many constraints at once.

    Raises SpecError for a kind that does not exist or cannot do this.
    """
    grid = _find(kind).grid
    if grid is None:
        raise SpecError(f"engine '{kind}' cannot simulate; simulate with kind = 'duckdb'", key="engine.kind")
    return grid(program, columns, variants)


def left_in_the_clear(kind: str) -> str | None:
    """What an engine of this kind leaves on the disk unencrypted, as the start of a sentence."""
    return _find(kind).leaves


def require_fit(kind: str, source: str, only: str | None) -> None:
    """Raise SpecError unless an engine of this kind takes the changes of this kind of source.

    only: the only kind of engine that the source can feed; None: any.
    """
    taken = _find(kind).sources
    if only is not None and only != kind:
        raise SpecError(
            f"a source of kind '{source}' needs the engine '{only}': write [engine] kind = '{only}'",
            key="engine.kind",
        )
    if taken is not None and source not in (*taken, "object"):
        raise SpecError(
            f"the engine '{kind}' does not take a source of kind '{source}' yet; "
            f"it takes {' and '.join(sorted(taken))}. Use kind = 'duckdb'",
            key="engine.kind",
        )


def stamps_of(kind: str) -> str:
    """The kind of engine that stamps changelogs for one of this kind.

    Raises SpecError for a kind that does not exist.
    """
    return _find(kind).stamps or kind


def open_stamper(kind: str, program: Program, columns: Mapping[str, str]) -> Engine:
    """The engine that stamps changelogs for one of this kind, and has the layout of their state.

    Raises SpecError for a kind that does not exist or does not read the stamps of this program, and
    QueryError for a query that the engine cannot compute.
    """
    other = stamps_of(kind)
    flows = (one.query for one in program.releases if one.query.kind == "flow")
    if other != kind and any(flow.watched is None for flow in flows):
        raise SpecError(
            "a flow of this plan, which an earlier version made, sees changes of every column, and the "
            f"engine '{kind}' cannot compare whole rows with those of a stamped changelog. Nothing was read "
            "or written. Run it on the changelog itself: tidegauge run",
            key="engine.kind",
        )
    return open_engine(other, program, columns)


def open_engine(
    kind: str,
    program: Program,
    columns: Mapping[str, str],
    *,
    store: Path | None = None,
    secret: bytes | None = None,
) -> Engine:
    """An engine of this kind for a program over a table with these columns.

    store: the path of the store, beside which an engine that keeps its state itself keeps it; secret: of an
    encrypted store, with which this engine encrypts it.

    Raises SpecError for a kind that does not exist and QueryError for a query that the engine cannot compute.
    """
    engine = _find(kind).open(program, columns)
    if store is not None and isinstance(engine, KeepingEngine):
        engine.keep_in(store, secret)
    return engine


def _find(kind: str) -> EngineKind:
    found = ENGINES.find(kind)
    if found is None:
        near = difflib.get_close_matches(kind, ENGINES.names(), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise SpecError(
            f"there is no such engine; one of {', '.join(sorted(ENGINES.names()))}{hint}", key="engine.kind"
        )
    return found
