"""The seeded bugs.  Each was made once, somewhere, or could be made in a line."""

from __future__ import annotations

from typing import Final

from tidegauge.audit.controls.seed import Bug, Edit

_THEORY: Final = "tidegauge.theory"
_DUCK: Final = "tidegauge.engine.duckdb"
_NOISE: Final = "tidegauge.mechanism.noise.samplers"


def bug(name: str, function: str, old: str, new: str, *caught_by: str) -> Bug:
    """A bug of one edit."""
    return Bug(name, (Edit(function, old, new),), caught_by)


BUGS: Final = (
    bug("the paper's MostSpan", f"{_THEORY}.folds:_most_span",
        "(min(bisect_left(ends, end + longest, i), last) - i + 1 for i, end in enumerate(ends)), default=0",
        "(bisect_left(ends, end + longest, i) - i + 1 for i, end in enumerate(ends) "
        "if bisect_left(ends, end + longest, i) <= last), default=0",
        "windows that an interval touches"),
    bug("the paper's formula for hierarchies", f"{_THEORY}.folds:_Layer.most",
        "_ceiling(case.bound, self.width) + 1 - spent",
        "int(case.bound.value / self.width.value) + 1 - spent", "hierarchies"),
    bug("|b - a| on [50, 100]", f"{_THEORY}.sensitivity:sensitivity",
        "max(high, Fraction(0)) - min(low, Fraction(0))", "high - low", "values far from zero"),
    bug("enforcement is skipped", f"{_DUCK}.statements:Statements.accepted",
        "USING (unit, instant) WHERE inside", "USING (unit, instant)", "three changes, and two more"),
    bug("k + 1 changes are accepted", f"{_DUCK}.statements:Statements.numbered",
        "coalesce(ord <= at_most, true)", "coalesce(ord <= at_most + 1, true)",
        "three changes, and two more"),
    Bug("noise is drawn again after a restart", (
        Edit("tidegauge.store.store:Store.progress",
             "Progress(self.secret.clock, self.public.next_bins)", "Progress(self.secret.clock, {})"),
        Edit("tidegauge.store.public.journal:Journal.seal", "INSERT INTO journal",
             "INSERT OR REPLACE INTO journal"),
        Edit("tidegauge.store.public.part:PublicPart.record", "INSERT INTO readings",
             "INSERT OR REPLACE INTO readings"),
    ), ("three changes, and two more",)),
    bug("shared noise is drawn at every tick", "tidegauge.run.tick:draw_once",
        "law is None or known:", "law is None:", "shared noise"),
    bug("noise that was drawn ahead is drawn at every tick", "tidegauge.run.tick:noise_ahead",
        "if known is None and bins == 0:", "if sampler is not None:", "noise drawn ahead"),
    bug("a change of group counts once", f"{_THEORY}.sensitivity:sensitivity",
        "2 * magnitude, max(2 * magnitude**2, spread**2)", "magnitude, max(magnitude**2, spread**2)",
        "changes of group"),
    bug("a flow moves M instead of k M", f"{_THEORY}.joint:joint",
        "most = most_counted(mutations=mutations, clip=clip)", "most = 1",
        "a flow, all changes in one window"),
    Bug("noise is 10 % small in drawing and error bars alike", (
        Edit(f"{_NOISE}:Noise.sample", "list(self._measurement()([0] * count))",
             "[round(0.9 * one) for one in self._measurement()([0] * count)]"),
        Edit(f"{_NOISE}:Noise.variance", "return self._variance()", "return 0.81 * self._variance()"),
    ), ("drawn noise, Gaussian",)),
    bug("Laplace noise is 10 % small when it is drawn", f"{_NOISE}:Noise.sample",
        "list(self._measurement()([0] * count))",
        "[round(0.9 * one) for one in self._measurement()([0] * count)]", "drawn noise, Laplace"),
    bug("planned Gaussian noise is 10 % small", f"{_NOISE}:gaussian_for",
        "DiscreteGaussian(l2_squared / (2 * rho))", "DiscreteGaussian(l2_squared * 81 / (200 * rho))",
        "three changes, and two more"),
    bug("planned Laplace noise is 10 % small", f"{_NOISE}:laplace_for",
        "DiscreteLaplace(l1 / epsilon)", "DiscreteLaplace(l1 * 9 / (10 * epsilon))",
        "three changes, pure epsilon"),
    bug("the same noise for neighbouring cells", f"{_NOISE}:Noise.sample",
        "list(self._measurement()([0] * count))",
        "[one for one in self._measurement()([0] * (count // 2 + 1)) for _ in range(2)][:count]",
        "drawn noise, Gaussian"),
    bug("the same noise at every tick", f"{_NOISE}:Noise.sample",
        "return list(self._measurement()([0] * count)) if count else []",
        "global _kept_; _kept_ = globals().get('_kept_') or {}; "
        "return list(_kept_.setdefault((self, count), list(self._measurement()([0] * count))))",
        "drawn noise, Gaussian"),
    bug("uniform noise", f"{_NOISE}:Noise.sample",
        "list(self._measurement()([0] * count))",
        "[round((12 * self.variance) ** 0.5 * (__import__('secrets').randbelow(10**9) / 1e9 - 0.5)) "
        "for _ in range(count)]", "drawn noise, Gaussian"),
    bug("a renamed row starts with fresh counters", f"{_DUCK}.identity:RowKeys.resolve",
        "name = self._leave(change.previous)", 'name = self._leave(change.previous) + f"+{change.seq}"',
        "a row whose key changes"),
    bug("a key forgets its deleted row when another passes", f"{_DUCK}.identity:RowKeys._leave",
        "record[1].pop()", "record[1].clear(), record.__setitem__(0, record[0] + 1)",
        "keys of deleted rows"),
    bug("noise of a layer grows with the root of its scale", "tidegauge.mechanism.encode:scaled",
        "noise.sigma_squared * factor**2", "noise.sigma_squared * factor", "layers of unequal noise"),
    bug("a flow counts one row too many", f"{_DUCK}.views:Views.flow_change",
        "<= {self.program.max_rows}", "<= {self.program.max_rows + 1}", "a flow of several rows"),
    bug("one row of a unit too many counts", f"{_DUCK}.views:Views.contributing",
        "last_ends[{most}]", "last_ends[{most + 1}]", "several rows of one unit"),
    bug("no unit is there before the first window",
        "tidegauge.mechanism.strategies.disjoint:Disjoint.sensitivity",
        "if not self.base:", "if self.base >= 0:", "before the first window"),
    bug("a release's own constraint is planned as the shared one", "tidegauge.plan.planner:_options",
        "constraint, declared = enforced(program, name),",
        "constraint, declared = (spec.constraint or spec.measured[name].constraint).constraint,",
        "a release's own constraint"),
    bug("within is one microsecond too long", f"{_DUCK}.statements:Statements.numbered",
        "instant - first <= within", "instant - first <= within + 1",
        "within a time, and a microsecond later"),
    bug("no unit retires", "tidegauge.plan.program:_scope",
        'retire=spec.on_excess == "retire"', "retire=False", "retiring at the last change"),
    bug("a label is read again", f"{_DUCK}.statements:Statements.numbered",
        "CASE WHEN known.unit IS NULL THEN labels.label ELSE known.label END", "labels.label",
        "a label for life"),
    bug("a late change rewrites the past", f"{_DUCK}.engine:DuckEngine._parts",
        'f"greatest(time, {watermark + 1})"', '"time"', "a late change"),
    bug("the order of stamps prevails over the log's", f"{_DUCK}.engine:DuckEngine._parts",
        "if not self._arrival.in_order:", "if watermark is None:", "the order of the log"),
    bug("a stamp in the future waits for its time", f"{_DUCK}.batch:completed",
        'pc.min_element_wise(rows["time"], pa.scalar(now, pa.int64()))', 'rows["time"]',
        "a stamp in the future"),
    bug("data move the watermark", "tidegauge.run.tick:fold",
        "max(since.watermark, reached)",
        'max(since.watermark, reached, pc.max(batch.rows["time"]).as_py() or reached)',
        "stamps beyond the clock"),
    bug("a clip is ignored", f"{_DUCK}.statements:Statements.totals",
        "WHERE most IS NULL OR ordinal <= most", "", "a flow that is clipped"),
    bug("a sliding window starts from nothing", "tidegauge.mechanism.strategies.sliding:Sliding.sensitivity",
        "firsts=0", "firsts=1", "a window that slides, for long"),
    Bug("values are not clamped", (
        Edit(f"{_DUCK}.render:_steps", 'f"LEAST(GREATEST({render(value)}, {low}), {high})"', "render(value)"),
        Edit(f"{_DUCK}.render:amount",
             'f"least(greatest({found}, {min(component.lower, 0)}), {max(component.upper, 0)})"', "found"),
    ), ("missing and excessive values",)),
    bug("a missing value counts as one", f"{_DUCK}.render:_steps",
        "IS NULL THEN 0 ELSE {shifted}", "IS NULL THEN 1 ELSE {shifted}", "missing and excessive values"),
    bug("a finer grid needs less noise", "tidegauge.plan.choose:component_plan",
        "sensitivity.l2_squared * refine**2", "sensitivity.l2_squared * refine",
        "three changes, and two more"),
    bug("each part of a mean has the whole budget", "tidegauge.plan.choose:Option.component_plans",
        "loss / len(self.sensitivities)", "loss", "a mean"),
    bug("an emptied table keeps its rows", f"{_DUCK}.arrival:Arrival._events",
        "WHERE last.alive", "WHERE NOT last.alive", "an emptied table"),
    bug("the ledger reserves without limit", "tidegauge.store.public.ledger:Ledger.reserve",
        "if reservation.reserved > left:", "if reservation.reserved > left + reservation.budget:",
        "the ledger"),
    bug("standard errors are 10 % small", "tidegauge.mechanism.noise.errors:Errors.stderrs",
        "return np.sqrt(", "return 0.9 * np.sqrt(", "three changes, and two more, canaries"),
    bug("readings are a tenth too small", "tidegauge.mechanism.strategies.disjoint:Disjoint.weights",
        "np.ones(rows)", "0.9 * np.ones(rows)", "three changes, and two more, canaries"),
    bug("a fading strategy's sensitivity is halved",
        "tidegauge.mechanism.strategies.autoregressive:Autoregressive._both",
        "l1 * self.denominator,", "l1 * self.denominator / 2,", "strategy autoregressive, all paths"),
    bug("an insertion and its reversal are bounded by half", "tidegauge.theory.paths.bounds:one_or_two",
        "return best * (1 + 32 * U)", "return best / 2", "strategy dense, all paths"),
)  # fmt: skip
"""A bug that belongs to a feature is added with the feature, at the end, with an exercise that finds it.

Constraints that renew bring their own: a term that remembers the last one.
"""
