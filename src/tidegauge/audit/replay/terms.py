"""Constraints that renew: they protect a unit in one term, so neighbouring worlds differ in one term.  [T15]

The worst unit enters at the instant at which a term begins, which uses up no change, changes as
often as the constraint allows, and is gone when the next term begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.audit.replay.paths import Change, Path, cycles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidegauge.audit.replay.paths import Search
    from tidegauge.audit.worlds.palette import Contribution
    from tidegauge.audit.worlds.world import Random
    from tidegauge.model.program import Allowance, Program, Scope
    from tidegauge.model.schedule import Schedule
    from tidegauge.plan.plan import ReleasePlan


class Term(NamedTuple):
    """From `begins` (None: the first term, which has no beginning) until just before `ends`."""

    begins: int | None
    ends: int


def terms_between(terms: Schedule, first: int, last: int) -> list[Term]:
    """The terms with instants from first to last."""
    numbers = range(terms.bin_at(first + 1), terms.bin_at(last + 1) + 1)
    return [Term(terms.bin_end(n - 1) if n else None, terms.bin_end(n)) for n in numbers]


class _Places(NamedTuple):
    """The bins in which a unit may change in a term, with the instants."""

    bins: list[int]
    instants: list[int]


class TermSearch:
    """The search for the path in one term that costs the most."""

    def __init__(
        self, search: Search, release: ReleasePlan, program: Program, *, bins: int, rng: Random
    ) -> None:
        self._search, self._bins, self._rng = search, bins, rng
        self._schedule = release.release.schedule
        self._flow = release.release.query.kind == "flow"
        self._clip = release.release.clip
        assert program.terms is not None
        first, last = self._schedule.bin_end(0), self._schedule.bin_end(bins - 1)
        known = terms_between(program.terms, first, last)
        self._terms = [known[n] for n in sorted({0, min(1, len(known) - 1), len(known) // 2})]

    def worst(self, scope: Scope, contributions: Sequence[Contribution]) -> Path:
        """The path with the largest cost that was found; an empty one where no row contributes."""
        best = Path((), scope.allowances[0][0], 0.0)
        for label, allowance in scope.allowances:
            for term in self._terms if contributions else ():
                for changes, instants in self._paths(term, allowance, contributions, retire=scope.retire):
                    cost = self._search.cost(changes)
                    if cost > best.cost:
                        full = self._full(term, allowance, changes)
                        best = Path(tuple(changes), label, cost, tuple(instants), term.ends, full)
        return best

    def _paths(
        self, term: Term, allowance: Allowance, contributions: Sequence[Contribution], *, retire: bool
    ) -> Iterator[tuple[list[Change], list[int]]]:
        places = self._inside(term, allowance)
        if self._flow:
            yield from self._flows(places, allowance, contributions[0])
            return
        for cycle in cycles(contributions):
            for chosen in self._chosen(places, allowance, entered=term.begins is not None):
                changes, instants = self._changes(term, chosen, cycle)
                if retire and len(chosen.bins) > 1:
                    changes[-1] = Change(changes[-1].bin, None)
                if changes and changes[-1].contribution is not None:
                    self._leave(term, changes, instants)
                if changes:
                    yield changes, instants

    def _full(self, term: Term, allowance: Allowance, changes: Sequence[Change]) -> bool:
        """Whether the changes inside the term are as many as the constraint allows."""
        if allowance.at_most is None:
            return allowance.within is not None
        last = self._schedule.bin_at(term.ends)
        inside = [one for one in changes if one.contribution is not None or one.bin < last]
        return len(inside) - (term.begins is not None and not self._flow) >= allowance.at_most

    def _changes(
        self, term: Term, chosen: _Places, cycle: Sequence[Contribution | None]
    ) -> tuple[list[Change], list[int]]:
        bins, instants = list(chosen.bins), list(chosen.instants)
        if term.begins is not None:
            bins, instants = [self._schedule.bin_at(term.begins), *bins], [term.begins, *instants]
        return [Change(bin_, cycle[n % len(cycle)]) for n, bin_ in enumerate(bins)], instants

    def _leave(self, term: Term, changes: list[Change], instants: list[int]) -> None:
        """Let the unit be gone when the next term begins, which uses up no change either."""
        if (bin_ := self._schedule.bin_at(term.ends)) < self._bins:
            changes.append(Change(bin_, None))
            instants.append(term.ends)

    def _inside(self, term: Term, allowance: Allowance) -> _Places:
        """The bins that lie inside the term, with their last instants."""
        first = 0 if term.begins is None else self._schedule.bin_at(term.begins) + 1
        bins = [bin_ for bin_ in range(first, self._bins) if self._schedule.bin_end(bin_) < term.ends - 1]
        if allowance.within is not None and bins:
            since = self._schedule.bin_end(bins[0]) if term.begins is None else term.begins
            bins = [bin_ for bin_ in bins if self._schedule.bin_end(bin_) <= since + allowance.within]
        return _Places(bins, [self._schedule.bin_end(bin_) for bin_ in bins])

    def _chosen(self, places: _Places, allowance: Allowance, *, entered: bool) -> Iterator[_Places]:
        """Some of these bins, as many as the constraint allows."""
        size = len(places.bins)
        most = size if allowance.at_most is None else min(allowance.at_most, size)
        picks = [list(range(most))]
        if most:
            picks += [np.unique(np.linspace(0, size - 1, most).astype(int)).tolist()]
            picks += [sorted(self._rng.sample(range(size), most))]
        if most > 1:
            picks.append(picks[0][:-1])  # the last change may lower the cost
        for pick in picks:
            if pick or entered:
                yield _Places([places.bins[n] for n in pick], [places.instants[n] for n in pick])

    def _flows(
        self, places: _Places, allowance: Allowance, one: Contribution
    ) -> Iterator[tuple[list[Change], list[int]]]:
        """All changes in one bin, or as many in each bin as the clip lets count."""
        for start in range(min(len(places.bins), 64)):
            left = allowance.at_most if allowance.at_most is not None else 10**6
            changes: list[Change] = []
            for bin_ in places.bins[start:]:
                taken = min(left, self._clip or left)
                if not taken:
                    break
                changes += [Change(bin_, one)] * taken
                left -= taken
            yield changes, []
