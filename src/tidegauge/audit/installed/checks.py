"""Every check that is independent of the audited plan, by name: small gauges, definitions, drawn noise."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.audit.findings import require
from tidegauge.audit.installed.arithmetic import ARITHMETIC
from tidegauge.audit.installed.calendars import CALENDARS
from tidegauge.audit.installed.choice import choice_checks
from tidegauge.audit.installed.clock_and_noise import CLOCK_AND_NOISE
from tidegauge.audit.installed.definitions import DEFINITIONS
from tidegauge.audit.installed.exercises import COUNT, EXERCISES, Exercise, toggles
from tidegauge.audit.installed.growth import GROWTH
from tidegauge.audit.installed.keys_and_terms import KEYS_AND_TERMS
from tidegauge.audit.installed.many_rows import check_many_rows
from tidegauge.audit.installed.operators import OPERATORS
from tidegauge.audit.installed.public_file import PUBLIC_FILE
from tidegauge.audit.installed.published import published_checks
from tidegauge.audit.installed.queries import check_queries
from tidegauge.audit.installed.random_gauges import oracle_checks
from tidegauge.audit.installed.rare_exercises import RARE_EXERCISES
from tidegauge.audit.installed.responses import response_checks
from tidegauge.audit.installed.sealed import sealed_checks
from tidegauge.audit.installed.stores import STORES
from tidegauge.audit.installed.strategies import check_strategy, strategy_checks
from tidegauge.audit.local.surveys import survey_checks
from tidegauge.audit.noise.canaries import run_canaries
from tidegauge.audit.noise.laws import Recorder, laws_of
from tidegauge.audit.readers.notations import notation_checks
from tidegauge.audit.readers.readers import opener, reader_checks
from tidegauge.audit.worlds.palette import palette
from tidegauge.audit.worlds.rehearsal import MemoryLog, carry_out
from tidegauge.audit.worlds.world import Random
from tidegauge.errors import BudgetExceeded
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Callable

CELLS: Final = 2500
"""Cells whose noise is drawn; each has as many draws as there are bins."""


def check_drawn(alpha: float, *, pure: bool) -> int:
    """Draw the noise of a real gauge over an empty table; returns how many draws.  Raises Discrepancy."""
    grouped = {
        "sql": "SELECT s, COUNT(*) FROM t GROUP BY s",
        "groups": {"s": [f"g{n}" for n in range(CELLS)]},
    }
    subject = Exercise(toggles(), {**COUNT, **grouped}, pure=pure).subject()
    recorder = Recorder()
    source = MemoryLog("t", subject.plan.columns, Random(0), owner=None, informed=False)
    with ScratchFolder() as folder:
        carry_out(subject, source, [], folder=Path(folder.name), passes=(24, 44, 200), sampler=recorder)
    laws = laws_of(recorder)
    laws.check(alpha)
    return laws.draws


def check_canaries(alpha: float, name: str) -> float:
    """Canaries in the plan of an exercise; returns the mu of their path.  Raises Discrepancy."""
    subject = EXERCISES[name].subject()
    found = run_canaries(subject, "r", palette(subject.plan), cells=300, seed=1, alpha=alpha)
    require(found is not None, "no invented row contributes")
    return 0.0 if found is None else found.path


_PAST: Final = (
    "three changes, and two more", "three changes, pure epsilon", "changes of group", "values far from zero",
    "values of both signs", "within a time, both ends included", "within a time, and a microsecond later",
    "at most and within", "a release's own constraint", "missing and excessive values", "a label that lasts",
    "retiring at the last change", "retiring when the time is up", "a mean", "several rows of one unit",
    "a flow that is clipped", "a constraint that renews", "a label that is not declared",
    "several changes at one time", "at most and within, and changes after the first pass",
    "a time that ends after the first pass", "retiring after the first pass",
    "changes of what is not published",
    "bins of two widths", "a clip in bins of two widths", "retiring when the last bin ends",
    "rows that enter at one time", "labels that come at one time", "a flow, all changes in one window",
    "a change when a term begins", "a flow whose unit retires", "a frozen unit that comes back",
    "a flow between two rows", "a unit that enters late in a term", "retiring in a term",
    "the order of rows through a term", "a flow of all that comes and goes",
    "a flow of all that comes and goes, of several rows",
)  # fmt: skip
"""Exercises that are also run on a whole history, which has a code of its own."""
_STAMPED: Final = (
    "three changes, and two more", "within a time, and a microsecond later", "a label that lasts",
    "retiring when the time is up",
)  # fmt: skip
"""Exercises that are also run from a stamped history."""


def check_ledger() -> None:
    """A plan that needs more than the budget is refused when it is committed; one that fits is not."""
    subject = Exercise(toggles(), COUNT).subject()
    source = MemoryLog("t", subject.plan.columns, Random(0), owner=None, informed=False)
    for part, fits in ((1, True), (Fraction(1, 2), False)):
        plan = replace(subject.plan, total=subject.plan.total * part)
        with ScratchFolder() as folder:
            try:
                carry_out(
                    replace(subject, plan=plan), source, [], folder=Path(folder.name), passes=(24,),
                    sampler=Recorder(),
                )  # fmt: skip
            except BudgetExceeded:
                require(not fits, "the ledger refused a plan that fits the budget")
            else:
                require(fits, "the ledger reserved more than the budget")


def check_processes() -> None:
    """Two processes draw different noise: it does not come from a seed."""
    draw = (
        "from fractions import Fraction; from tidegauge.mechanism.noise import samplers as s; "
        "print([s.SecureSampler().draw(law, 20) for law in (s.DiscreteGaussian(Fraction(10**12)), "
        "s.DiscreteLaplace(Fraction(10**6)))])"
    )
    command = [sys.executable, "-P", "-c", draw]
    said = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
        for _ in range(2)
    ]
    numbers = [set(re.findall(r"-?\d+", one)) for one in said]
    require(len(numbers[0]) >= 38, "a process drew the same noise more than once")
    require(len(numbers[0] & numbers[1]) <= 2, "two processes drew the same noise")


def checks(alpha: float) -> dict[str, Callable[[], object]]:
    """All of them.  `alpha`: the chance of a false alarm that they may have together."""
    found: dict[str, Callable[[], object]] = {**DEFINITIONS, **CALENDARS, **ARITHMETIC}
    found |= {name: partial(check_strategy, kind) for name, kind in strategy_checks().items()}
    small = {**EXERCISES, **RARE_EXERCISES, **KEYS_AND_TERMS}
    found |= {name: exercise.check for name, exercise in small.items()}
    found |= reader_checks(small)
    found |= oracle_checks()
    found |= published_checks(alpha / 10)
    found |= STORES | sealed_checks()
    found |= GROWTH
    found |= {**OPERATORS, **CLOCK_AND_NOISE, **PUBLIC_FILE, **notation_checks(), **response_checks()}
    found |= choice_checks(alpha / 20)
    found |= survey_checks(alpha / 20)
    for name in _PAST:
        exercise = small[name]
        open_log = opener("files", owner=None if exercise.rows is None else "owner")
        found[f"{name}, a whole history"] = partial(exercise.check, open_log=open_log, passes=(200,))
        found[f"{name}, after a history"] = partial(exercise.check, open_log=open_log, passes=(24, 200))
    for name in _STAMPED:
        check = partial(small[name].check, open_log=opener("files", owner=None), passes=(200,))
        found[f"{name}, a stamped history"] = partial(check, stamped=True)
    found["drawn noise, Gaussian"] = lambda: check_drawn(alpha / 5, pure=False)
    found["drawn noise, Laplace"] = lambda: check_drawn(alpha / 5, pure=True)
    for name in ("three changes, and two more", "changes of group"):
        found[f"{name}, canaries"] = partial(check_canaries, alpha / 5, name)
    found["queries by a few lines of Python"] = check_queries
    for dialect in ("postgres", "sqlite"):
        found[f"queries in the dialect of {dialect}"] = partial(check_queries, dialect)
    found["more rows than a block holds"] = check_many_rows
    found["noise of two processes"] = check_processes
    found["the ledger"] = check_ledger
    return found
