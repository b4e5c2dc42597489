"""Seeded bugs that only some strategies, clips, large numbers, or several releases in one tick show."""

from __future__ import annotations

from typing import Final

from tidegauge.audit.controls.around import bug

_SLIDING: Final = "tidegauge.mechanism.strategies.sliding:Sliding.sensitivity"
_HIERARCHY: Final = "tidegauge.mechanism.strategies.hierarchy:Hierarchy._flow"

_PAST: Final = "tidegauge.engine.duckdb.past"
_REPORTER: Final = "tidegauge.local.reporter"

SELDOM: Final = (
    bug("a time touches one sliding window fewer", _SLIDING, "(bins - 1 + self.span)",
        "(bins - 2 + self.span)", "windows that slide, within a time"),
    bug("a sliding window has the clip of one bin", _SLIDING, "counts.each * self.span",
        "counts.each * self.stride", "windows that slide over a clip"),
    bug("rows of a unit add up like noise", "tidegauge.mechanism.exposure:over_cases",
        "exposure.rows**2 *", "exposure.rows *", "windows that slide, of several rows"),
    bug("the rest of a clip is not squared", "tidegauge.theory.joint:joint", "full * most**2 + rest**2",
        "full * most**2 + rest", "a clip that leaves a rest"),
    bug("the rest of a clip is not squared in a hierarchy", _HIERARCHY, "most**2 + left**2",
        "most**2 + left", "a clip that leaves a rest, in a hierarchy"),
    bug("not all changes of a flow are before the first window", _HIERARCHY,
        ", min(flow.total, flow.each)}", "}",
        "a flow before the first window of a hierarchy"),
    bug("no row is there before the first window of a hierarchy",
        "tidegauge.mechanism.strategies.hierarchy:Hierarchy._most",
        'base=None if self.load == "leaf" else load', "base=None",
        "a row before the first window of a hierarchy"),
    bug("a hierarchy has two groups", "tidegauge.mechanism.exposure:costs",
        "min(exposure.groups, _ENOUGH_GROUPS)", "min(exposure.groups, 2)", "three groups in a hierarchy"),
    bug("all units have the constraint of the first label", "tidegauge.plan.certify:constraint_on",
        "first = Either(first, other)", "pass", "a label with more changes than the first"),
    bug("what a clip let through in an earlier bin counts in the last one",
        "tidegauge.engine.duckdb.statements:Statements.used", "max_by(ordinal, (bin{term},",
        "max_by(ordinal, (0{term},",
        "a clip in bins of two widths"),
    bug("releases of one tick have a draw in common", "tidegauge.mechanism.noise.pool:Pool.draw",
        "left[count:]", "left[count - 1 :]", "releases that draw together"),
    bug("noise of one law is handed out for another", "tidegauge.mechanism.noise.pool:Pool.draw",
        "self._sampler.draw(noise, missing)",
        "self._sampler.draw(next(iter(self._drawn), noise), missing)",
        "releases that draw together, and a tick that is interrupted"),
    bug("sums overflow in 64 bits", "tidegauge.mechanism.encode:_combinations",
        "2 * largest * sum(map(abs, factors)) < _NARROW", "largest < _NARROW", "sums of large numbers"),
    bug("a ledger knows its last entry alone", "tidegauge.store.public.ledger:Ledger.spent",
        "in self.entries())", "in self.entries()[-1:])", "reservations of a ledger"),
    bug("a shared ledger confirms what it never reserved",
        "tidegauge.store.public.shared:SharedLedger.confirm", "< needed:", "< 0:",
        "reservations of a ledger"),
    bug("a unit that left in a term comes back in it",
        "tidegauge.engine.duckdb.terms:TermStatements.numbered",
        "NOT same OR known_leaves IS NOT NULL AS open", "true AS open", "retiring in a term"),
    bug("a history does not let units leave with its last bin", f"{_PAST}.enforce:judged",
        "declared & (leaves <= reached)", "declared & (leaves < reached)",
        "retiring when the last bin ends, a whole history"),
    bug("a history forgets which units differ from the truth", f"{_PAST}.state:PastState._excess",
        "self._texts[s].places(of_scope)", "np.full(len(of_scope.units), -1)",
        "what the constraint keeps out"),
    bug("a history says that nothing was dropped", f"{_PAST}.totals:totals", "for some in sums)",
        "for some in (sums[0], [0] * len(sums[0])))", "what the constraint keeps out"),
    bug("the interval of a mean is a tenth too narrow", "tidegauge.mechanism.aggregates.mean:Mean.estimates",
        "curve = count**2 - count_half**2", "curve = count**2", "means and their intervals"),
    bug("a reading is published again between two readings", "tidegauge.plan.series:Series.readings",
        "-(-(bins.start - schedule.offset) // schedule.stride)",
        "(bins.start - schedule.offset) // schedule.stride", "readings without noise"),
    bug("a memoized response is drawn again in every window", f"{_REPORTER}:Reporter._body",
        'f"memo:{held}", held', 'f"memo:{window}:{held}", held', "losses of surveys"),
    bug("a memoized response does not count being absent", f"{_REPORTER}:responses_of_a_life",
        "min(changes, answers) + 1 if", "min(changes, answers) if", "losses of surveys"),
    bug("a true bit of a survey is no fair coin", f"{_REPORTER}:Reporter._state_of",
        "weights = [1, 1] if each == symbol", "weights = [1, 2] if each == symbol", "losses of surveys"),
    bug("a life of responses changes in K windows, not in 2 K", f"{_REPORTER}:responses_of_a_life",
        "min(2 * changes, windows", "min(changes, windows", "losses of surveys"),
    bug("a report counts again when it is sent later", "tidegauge.local.collector:Collector._fresh",
        "new[begin:end] &= ~self._seen[here].among(token[begin:end])", "pass", "the state of a reporter"),
)  # fmt: skip
