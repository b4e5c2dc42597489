"""Seeded bugs around the engine: sources, stores, readings, the private choice, local surveys."""

from __future__ import annotations

from typing import Final

from tidegauge.audit.controls.seed import Bug, Edit

_POSTGRES: Final = "tidegauge.source.postgres"
_SNAPSHOTS: Final = "tidegauge.source.snapshots"
_DEBEZIUM: Final = "tidegauge.source.debezium"
_MEAN: Final = "tidegauge.mechanism.aggregates.mean"
_REPORTER: Final = "tidegauge.local.reporter"


def bug(name: str, function: str, old: str, new: str, *caught_by: str) -> Bug:
    """A bug of one edit."""
    return Bug(name, (Edit(function, old, new),), caught_by)


AROUND: Final = (
    # sources
    bug("PostgreSQL: a deleted row has no key", f"{_POSTGRES}.rows:Layout.changed",
        "pc.if_else(pa.array(letters == pgoutput.DELETE), old_key, new_key)", "new_key",
        "three changes, and two more, read from PostgreSQL's log"),
    bug("PostgreSQL: a key that changes is a new row", f"{_POSTGRES}.rows:Layout.changed",
        "previous=pc.if_else(renamed, old_key, pa.scalar(None, pa.string()))",
        "previous=pc.if_else(pc.invert(pc.is_null(entry)), pa.scalar(None, pa.string()), old_key)",
        "a row whose key changes, read from PostgreSQL's log"),
    bug("PostgreSQL: TRUNCATE is ignored", f"{_POSTGRES}.pgoutput:rows_of",
        "flags[index] = relation in truncated(messages[index])", "flags[index] = False",
        "an emptied table, read from PostgreSQL's log"),
    bug("PostgreSQL: times count from 2000", f"{_POSTGRES}.pgoutput:begin",
        "stamp + _POSTGRES_EPOCH", "stamp", "values of both signs, read from PostgreSQL's log"),
    bug("PostgreSQL: values that are left out are null", f"{_POSTGRES}.rows:Layout.changed",
        "kept=self._kept(new, number)", "kept=None", "values that are left out, read from PostgreSQL's log"),
    bug("snapshots: changed values are not seen", f"{_SNAPSHOTS}.images:differences",
        '["e", "u", *cells]', '["e", "u"]', "values of both signs, read from whole tables"),
    bug("snapshots: deleted rows stay", f"{_SNAPSHOTS}.images:differences",
        "FROM old AS o FULL JOIN new", "FROM old AS o RIGHT JOIN new",
        "three changes, and two more, read from whole tables"),
    bug("versions: an end is not seen", f"{_SNAPSHOTS}.history:_changes",
        "UNION SELECT e, t FROM v WHERE t > {after} AND t <= {until}", "",
        "a row that changes its unit, read from versions", "three changes, and two more, read from versions"),
    bug("versions: a late version is never delivered", f"{_SNAPSHOTS}.history:History.read",
        "if old is not None:", "if old is None:", "a late change, read from versions"),
    bug("versions: a mark of deletion is ignored", f"{_SNAPSHOTS}.history:_changes",
        "coalesce(NOT v.gone, false) AS is_", "v.e IS NOT NULL AS is_",
        "three changes, and two more, read from marked versions"),
    bug("Debezium: a key that changes is a new row", f"{_DEBEZIUM}.rows:Reading.rows",
        'old if event.kind == "u" and old is not None and old != new else None', "None",
        "a row whose key changes, read from debezium", "a row whose key changes, read from an inbox"),
    bug("negative decimals of events are large", f"{_DEBEZIUM}.events:_unscaled",
        "'big', signed=True", "'big', signed=False", "values of change events"),
    # readings
    bug("groups are published in the reverse order", "tidegauge.publish.reading:as_reading",
        "outline.cells[published.cell]", "outline.cells[-1 - published.cell]",
        "readings without noise"),
    bug("intervals are half as wide", "tidegauge.mechanism.noise.errors:Errors.half_widths",
        "return self._known[level]", "return self._known[level] / 2", "intervals with noise"),
    bug("the interval of a mean ignores the noise of its count", f"{_MEAN}:Mean.estimates",
        "np.sqrt((total * count_half) ** 2 + sum_half**2 * curve)", "np.sqrt(sum_half**2 * curve)",
        "intervals with noise"),
    bug("a mean is a distance from its middle", f"{_MEAN}:Mean.estimates",
        "np.clip(means + centre, low, high)", "np.clip(means, low, high)", "readings without noise"),
    bug("a derived window is one bin short", "tidegauge.plan.series:derived_series",
        "None if window is None else schedule.bins_in(window)",
        "None if window is None else schedule.bins_in(window) - 1", "readings without noise"),
    bug("days of a zone are days of UTC", "tidegauge.plan.planner:_release",
        "zone = _zone(local, start, spec.every, duration, spec.window)", "zone = None", "days of a zone"),
    bug("standard errors leave out the first layer of a tree",
        "tidegauge.mechanism.noise.errors:Errors._moment",
        "powers[:, layer] * noise.variance", "bool(layer) * powers[:, layer] * noise.variance",
        "strategy hierarchy, standard errors"),
    bug("parts of a whole have too small errors", "tidegauge.mechanism.estimate:add_up",
        "part_variances * (1 - part_variances / total)", "part_variances * (1 - part_variances / total) ** 2",
        "parts of a whole"),
    # stores
    bug("an old copy of a store runs on", "tidegauge.store.public.part:PublicPart.require_newest",
        "self.witness.require(self._db,", "dict(store=", "old copies of a store"),
    bug("a copy that was run elsewhere runs on", "tidegauge.store.public.witness:Witness.require",
        "if row is None or row[0] != seen.seal:", "if row is None:", "old copies of a store"),
    bug("more units than two bytes can number are mixed up", "tidegauge.engine.duckdb.sorting:order_of",
        "range(_DIGIT, bits, _DIGIT)", "range(2 * _DIGIT, bits, _DIGIT)",
        "more rows than a block holds"),
    bug("a row keeps its old version in the base of a table",
        "tidegauge.store.secret.table.sorted_table:SortedTable._merged",
        "parts += self._overlay_between(begin, end)", "parts += []", "more rows than a block holds"),
    bug("the journal's seals are not compared", "tidegauge.store.public.journal:Journal.prove",
        "or _link(previous, time, rows) != sealed", "", "altered records"),
    bug("a committed plan is not certified again", "tidegauge.plan.certify:certify",
        "needed > most:", "needed > 100 * most:", "certificates of plans"),
    bug("added releases may spend the whole budget", "tidegauge.plan.certify:certify",
        "room = plan.budget.held_back if plan.amends is not None else 1 - plan.budget.held_back", "room = 1",
        "certificates of plans"),
    # the private choice
    bug("a unit moves a score of the choice by half", "tidegauge.theory.choice:choice_sensitivity",
        "isqrt(scaled.numerator // scaled.denominator) + 1",
        "isqrt(scaled.numerator // scaled.denominator) // 2 + 1", "scores of a choice of at_most"),
    bug("no unit is clipped in the scores of the choice", "tidegauge.engine.duckdb.cuts:Cuts.clipped",
        "CASE WHEN parts * parts * norm > most THEN parts - 1 ELSE parts END AS weight", "{PARTS} AS weight",
        "scores of a choice of at_most"),
    bug("the choice has half the noise", "tidegauge.mechanism.noise.selection:NoisyMinimum.draw",
        "int(self._measurement()(list(scores)))",
        "int(self._measurement()([2 * score for score in scores]))", "a choice of at_most, Gumbel noise",
        "a choice of at_most, exponential noise"),
    bug("the choice takes the lowest score without noise",
        "tidegauge.mechanism.noise.selection:NoisyMinimum.draw", "int(self._measurement()(list(scores)))",
        "int(np.argmin(scores))", "a choice of at_most, Gumbel noise"),
    bug("the choice is drawn again after a kill", "tidegauge.run.choose:choose",
        "drawn = store.draw.number", "drawn = None", "a choice of at_most, interrupted"),
    # local surveys
    bug("a reporter lies less often than its survey says", f"{_REPORTER}:Reporter._respond",
        "[ONE, self._accept * (size - 1)]", "[ONE, self._accept * (size - 1) // 2]",
        "reports of a small survey"),
    bug("the browser's reporter lies less often than its survey says",
        "tidegauge.audit.local.local:browser_module", 'read_text("utf-8")',
        'read_text("utf-8").replace("this.#accept * BigInt(size - 1)", "this.#accept * BigInt(size - 2)")',
        "reports of a small survey, browser"),
    bug("a window is reported in two ways", f"{_REPORTER}:Reporter.report",
        "if last is not None and window <= last:", "if last is not None and window < last:",
        "the state of a reporter"),
    bug("a reporter goes on after it lost its state", f"{_REPORTER}:Reporter.report",
        "any(spends) and not self._vouched", "False", "the state of a reporter"),
    bug("a report counts as often as it is sent", "tidegauge.local.collector:Collector._fresh",
        "new[1:] = (window[1:] != window[:-1]) | (token[1:] != token[:-1])", "new[1:] = True",
        "the state of a reporter"),
    bug("shares of a survey are too small", "tidegauge.local.decode:_Evidence.states",
        "share = (output - law.q) / (law.p - law.q)", "share = (output - law.q) / law.p",
        "estimates of surveys"),
    bug("standard errors of a survey are 30 % small", "tidegauge.local.decode:Histogram.stderr",
        "return np.sqrt(", "return 0.7 * np.sqrt(", "estimates of surveys"),
)  # fmt: skip
"""A check is not there where its reader or Node.js is not installed; its bugs are then not seeded."""
