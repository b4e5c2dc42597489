"""Every recorded run by its name: how it is made again, and under which file it is kept."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tests.golden.plans import PLANS, SCHEMAS, of_plan, of_postgres
from tests.golden.sources import KINDS, of_source
from tests.golden.sources import of_postgres as postgres_source
from tests.golden.strategies import CONSTRAINTS, STRATEGIES, of_constraint, of_strategy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.postgres import Server

RUNS: Final[dict[tuple[str, str], Callable[[Path], dict[str, Any]]]] = {
    **{("plans", name): partial(of_plan, name) for name in PLANS},
    **{("strategies", name): partial(of_strategy, name) for name in STRATEGIES},
    **{("constraints", name): partial(of_constraint, name) for name in CONSTRAINTS},
    **{("sources", name): partial(of_source, make) for name, make in KINDS.items()},
}
"""(file, name) -> what makes it, in a folder of its own."""


def with_server(server: Server) -> dict[tuple[str, str], Callable[[Path], dict[str, Any]]]:
    """Those that need PostgreSQL."""

    def source(folder: Path) -> dict[str, Any]:
        return postgres_source(server.database("golden_source"), folder)

    plans = {("plans", name): partial(of_postgres, server, name) for name in SCHEMAS}
    return {**plans, ("sources", "postgres"): source}
