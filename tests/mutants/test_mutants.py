"""One-line errors, and the quick tests that find each of them.

Each error is made in a copy of the package.  The named tests must fail on the copy, and pass on the package.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pytest

from tests.mutants.mutate import Mutant, apply, package, place, run

if TYPE_CHECKING:
    from pathlib import Path

WORST, KNOWN, EXACT = (f"tests/adjacency/test_{name}.py" for name in ("worst", "known", "exact"))


def worst(words: str) -> tuple[str, ...]:
    """The tests of test_worst.py whose names contain these words."""
    return WORST, "-k", " and ".join(words.split())


def exact(words: str) -> tuple[str, ...]:
    return EXACT, "-k", " and ".join(words.split())


def known(world: str) -> tuple[str, ...]:
    return KNOWN, "-k", f"{world} and memory"


MUTANTS = [
    Mutant("the noise of a layer grows with the root of its scale", "tidegauge.mechanism.encode", "scaled",
           "noise.sigma_squared * factor**2", "noise.sigma_squared * factor", worst("layers bins gaussian")),
    Mutant("a flow counts one row too many", "tidegauge.engine.duckdb.views", "Views.flow_change",
           "<= {self.program.max_rows}", "<= {self.program.max_rows + 1}", worst("flow several gaussian")),
    Mutant("no unit exists before the first window", "tidegauge.mechanism.strategies.disjoint",
           "Disjoint.sensitivity",
           "if not self.base:", "if self.base >= 0:", worst("before first window gaussian")),
    Mutant("a release's own constraint is planned as the shared one", "tidegauge.plan.planner", "_options",
           "constraint, declared = enforced(program, name),",
           "constraint, declared = (spec.constraint or spec.measured[name].constraint).constraint,",
           worst("constraint own gaussian")),
    Mutant("the shared draw is drawn at every tick", "tidegauge.run.tick", "draw_once",
           "law is None or known:", "law is None:", worst("remembers gaussian")),
    Mutant("changes may be one microsecond further apart", "tidegauge.engine.duckdb.statements",
           "Statements.numbered",
           "instant - first <= within", "instant - first <= within + 1",
           worst("time microsecond gaussian")),
    Mutant("a second value takes the place of the first in the journal", "tidegauge.store.public.journal",
           "Journal.seal",
           "INSERT INTO journal", "INSERT OR REPLACE INTO journal", ("tests/store/test_once.py",)),
    Mutant("no unit retires", "tidegauge.plan.program", "_scope",
           'retire=spec.on_excess == "retire"', "retire=False", exact("retires")),
    Mutant("a label is read again", "tidegauge.engine.duckdb.statements", "Statements.numbered",
           "CASE WHEN known.unit IS NULL THEN labels.label ELSE known.label END",
           "labels.label", exact("label")),
    Mutant("one change too many is accepted", "tidegauge.engine.duckdb.statements", "Statements.numbered",
           "coalesce(ord <= at_most, true)", "coalesce(ord <= at_most + 1, true)",
           worst("most three gaussian")),
    Mutant("changes over arrays are accepted whatever their number", "tidegauge.engine.duckdb.arrays",
           "ArrayFold._changed",
           "used > min(most, NEVER)", "used > NEVER", worst("most three gaussian")),
    Mutant("changes are accepted whatever their number", "tidegauge.engine.duckdb.statements",
           "Statements.accepted",
           "USING (unit, instant) WHERE inside", "USING (unit, instant)", worst("most three gaussian")),
    Mutant("a move between groups counts once", "tidegauge.theory.sensitivity", "sensitivity",
           "2 * magnitude, max(2 * magnitude**2, spread**2)", "magnitude, max(magnitude**2, spread**2)",
           worst("change group twice gaussian")),
    Mutant("the range of values is taken from its lower end", "tidegauge.theory.sensitivity", "sensitivity",
           "max(high, Fraction(0)) - min(low, Fraction(0))",
           "high - low", worst("nothing value far gaussian")),
    Mutant("the last windows are too few", "tidegauge.theory.folds", "_most_span",
           "min(bisect_left(ends, end + longest, i), last) - i + 1",
           "bisect_left(ends, end + longest, i) - i + (1 if bisect_left(ends, "
           "end + longest, i) <= last else i - len(ends))",
           ("tests/theory/test_folds.py", "-k", "span")),
    Mutant("a flow counts one change a window", "tidegauge.theory.joint", "joint",
           "most = most_counted(mutations=mutations, clip=clip)",
           "most = 1", worst("changes flow one gaussian")),
    Mutant("Gaussian noise is a tenth too small in plans and draws", "tidegauge.mechanism.noise.samplers",
           "gaussian_for",
           "DiscreteGaussian(l2_squared / (2 * rho))", "DiscreteGaussian(l2_squared * 81 / (200 * rho))",
           worst("most three gaussian")),
    Mutant("Laplace noise is a tenth too small in plans and draws", "tidegauge.mechanism.noise.samplers",
           "laplace_for",
           "DiscreteLaplace(l1 / epsilon)", "DiscreteLaplace(l1 * 9 / (10 * epsilon))",
           worst("most three laplace")),
    Mutant("noise is a tenth too small when it is drawn", "tidegauge.mechanism.noise.samplers",
           "Noise.sample",
           "list(self._measurement()([0] * count))",
           "[one * 9 // 10 for one in self._measurement()([0] * count)]",
           ("tests/adjacency/test_drawn.py", "-k", "wide and disjoint or wide and strategy1")),
    Mutant("a row forgets its changes when its key changes", "tidegauge.engine.duckdb.identity",
           "RowKeys.resolve",
           "name = self._at(origin)",
           'name = self._at(origin) + (f"+{change.seq}" if change.previous else "")',
           exact("row keeps counters")),
    Mutant("a key forgets its dead row when another passes through", "tidegauge.engine.duckdb.identity",
           "RowKeys._leave",
           "stack.guests.pop()", "stack.guests.clear(), setattr(stack, 'generation', stack.generation + 1)",
           known("dead_keys")),
    Mutant("a late change rewrites the past", "tidegauge.engine.duckdb.engine", "DuckEngine._parts",
           'f"greatest(time, {watermark + 1})"', '"time"', exact("late change")),
    Mutant("the order of stamps prevails over that of the log", "tidegauge.engine.duckdb.engine",
           "DuckEngine._parts",
           "if self._arrival.in_order:", "if watermark is not None:", exact("order log")),
    Mutant("a stamp in the future waits for its time", "tidegauge.engine.duckdb.batch", "completed",
           'pc.min_element_wise(rows["time"], pa.scalar(now, pa.int64()))',
           'rows["time"]', exact("stamp future")),
    Mutant("data move the watermark", "tidegauge.run.tick", "fold",
           "max(since.watermark, reached)",
           'max(since.watermark, reached, pc.max(batch.rows["time"]).as_py() or reached)',
           known("beyond_the_clock")),
    Mutant("bins are measured again after a restart", "tidegauge.store.store", "Store.progress",
           "Progress(self.secret.clock, self.public.next_bins)",
           "Progress(self.secret.clock, {})", worst("most three gaussian")),
    Mutant("the ledger reserves without limit", "tidegauge.store.public.ledger", "Ledger.reserve",
           "if reservation.reserved > left:", "if reservation.reserved > left + reservation.budget:",
           ("tests/store/test_store.py", "-k", "ledger_never")),
    Mutant("a clip is ignored", "tidegauge.engine.duckdb.statements", "Statements.totals",
           "WHERE most IS NULL OR ordinal <= most", "", worst("flow clipped windows gaussian")),
    Mutant("a sliding window starts from nothing", "tidegauge.mechanism.strategies.sliding",
           "Sliding.sensitivity",
           "firsts=0", "firsts=1", worst("long sliding gaussian")),
    Mutant("values are not clamped", "tidegauge.engine.duckdb.render", "_steps",
           'f"LEAST(GREATEST({render(value)}, {low}), {high})"', "render(value)",
           ("tests/plan/sql/test_engine.py", "-k", "sums_averages")),
    Mutant("a missing value counts as one", "tidegauge.engine.duckdb.render", "_steps",
           "IS NULL THEN 0 ELSE {shifted}", "IS NULL THEN 1 ELSE {shifted}", exact("values missing")),
    Mutant("one row of a unit too many counts", "tidegauge.engine.duckdb.views", "Views.contributing",
           "last_ends[{most}]", "last_ends[{most + 1}]",
           worst("several rows gaussian")),
    Mutant("a finer grid needs less noise", "tidegauge.plan.choose", "component_plan",
           "sensitivity.l2_squared * refine**2",
           "sensitivity.l2_squared * refine", worst("most three gaussian")),
    Mutant("each part of a mean has the whole budget", "tidegauge.plan.choose", "Option.component_plans",
           "loss / len(self.sensitivities)", "loss", worst("mean gaussian")),
    Mutant("an emptied table keeps its rows", "tidegauge.engine.duckdb.arrival", "Arrival._events",
           "WHERE last.alive", "WHERE NOT last.alive", exact("emptied")),
]  # fmt: skip


@lru_cache(maxsize=1024)
def passes(selection: tuple[str, ...]) -> bool:
    """Whether these tests pass on the unchanged package."""
    return run(selection, package().parent).returncode == 0


def test_there_are_enough_and_each_is_still_in_the_code() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 24
    for mutant in MUTANTS:
        place(mutant, package())


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_is_caught(tmp_path: Path, mutant: Mutant) -> None:
    assert passes(mutant.caught_by), "the tests do not pass on the package as it is, or there are none"
    done = run(mutant.caught_by, apply(mutant, tmp_path))
    assert done.returncode == 1, done.stdout[-2000:] + done.stderr[-2000:]
