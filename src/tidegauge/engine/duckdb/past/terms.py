"""Enforcement over arrays where constraints renew, for rows that are units.  [T15]

When a term begins, a unit contributes what it truly contributes, free of charge, and its changes count from 1
again, under the allowance of its label.  What a unit does in a term is left out where nothing is decided: if
the unit does not change in the term, unless it may have to leave, labels have allowances of their own, or the
term is the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidegauge.engine.duckdb.past.enforce import MOST_WITHIN, Enforced, changes_of, net
from tidegauge.engine.duckdb.past.labels import Standing, labels_of
from tidegauge.engine.duckdb.past.stamps import NO_CHANGE, NOT_COUNTED, Stamps
from tidegauge.engine.duckdb.sorting import begins
from tidegauge.engine.duckdb.views import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tidegauge.engine.duckdb.past.enforce import Flags, Ints, Rules, Versions
    from tidegauge.model.schedule import Schedule

_TOGETHER: Final = 1 << 20
"""About so many pairs of unit and term are judged at a time: a unit that must leave in every term has one
for each."""


@dataclass(frozen=True)
class Terms:
    """The terms that begin by the end of a history; term n has n beginnings up to its own."""

    begins: Ints
    """When terms 1, 2, ... begin."""
    until: int
    """When the next term begins."""
    reached: int
    """The end of the history."""

    @classmethod
    def of(cls, terms: Schedule | None, reached: int) -> Terms | None:
        """The terms up to `reached`; None: the constraint does not renew."""
        if terms is None:
            return None
        last = terms.bin_at(reached + 1)
        return cls(np.array([terms.bin_end(n) for n in range(last)], np.int64), terms.bin_end(last), reached)

    @property
    def last(self) -> int:
        """The number of the last term."""
        return len(self.begins)

    def ends(self, term: Ints) -> Ints:
        """When these terms end."""
        return np.append(self.begins, self.until)[term]

    def beginning(self, term: Ints) -> Ints:
        """When these terms begin; the one before all others never does."""
        return np.append([NEVER], self.begins)[term]


@dataclass(frozen=True)
class _Changes:
    """The changes of the contributions in one scope, sorted by unit and time."""

    unit: NDArray[np.int32]
    time: Ints
    bin: NDArray[np.int32]
    was: NDArray[np.int32]
    now: NDArray[np.int32]
    term: Ints
    free: Flags
    """Whether a change is at the instant at which a term begins."""
    flow: NDArray[np.int32] | None
    """What flows count of it; None: there are no flows."""
    label: NDArray[np.int32] | None
    """The label of its row; None: all units have one allowance."""

    def take(self, at: Any) -> _Changes:
        """Some of them."""
        found: dict[str, Any] = {name: None if one is None else one[at] for name, one in vars(self).items()}
        return _Changes(**found)


@dataclass(frozen=True)
class _UnitTerms:
    """What all units do in their terms, sorted by unit and term."""

    unit: NDArray[np.int32]
    term: Ints
    begin: NDArray[np.int32]
    """The contribution when the term begins ..."""
    end: NDArray[np.int32]
    """... and when it ends."""
    count: Ints
    """How many changes of the unit in the term are not free."""

    @classmethod
    def of(cls, changes: _Changes, last: int, *, each: bool) -> _UnitTerms:
        """`each`: whether units that contribute are judged in every term, not only in the last one."""
        key = changes.unit.astype(np.int64) * (last + 1) + changes.term
        starts = np.flatnonzero(begins(key))
        stops = np.append(starts, len(key))[1:]
        unit, term, free = changes.unit[starts], changes.term[starts], changes.free[starts]
        end = changes.now[stops - 1]
        following = np.append(unit[1:] == unit[:-1], [False])[: len(unit)]
        until = np.where(following, np.append(term[1:], [0])[: len(term)], last + 1)
        between = until - term - 1
        more = np.where(end != 0, between if each else ~following & (between > 0), 0)
        # `more` follow each one, in the terms before `until`
        place = np.repeat(np.arange(len(unit)), 1 + more)
        own = np.arange(len(place)) - (np.cumsum(1 + more) - (1 + more))[place]
        first = own == 0
        return cls(
            unit[place],
            np.where(first, term[place], until[place] - more[place] - 1 + own),
            np.where(first, np.where(free, changes.now[starts], changes.was[starts])[place], end[place]),
            end[place],
            np.where(first, (stops - starts - free)[place], 0),
        )


def enforce_terms(rows: Versions, rules: Rules, terms: Terms, ends: Ints, *, stamp: bool = False) -> Enforced:
    """Decide which changes of the contributions in one scope count, in each term by itself."""
    at, was, now, flow = changes_of(rows, rules)
    time, label = rows.time[at], labels_of(rows, rules, at)
    term = np.searchsorted(terms.begins, time, side="right")
    free = time == terms.beginning(term)
    every = _Changes(rows.key[at], time, rows.bin[at], was, now, term, free, flow, label)
    standing = None if label is None else Standing(rows, rules, terms)
    each = label is not None or (rules.retire and bool((rules.within != NEVER).any()))
    size = int(every.unit.max(initial=0)) + 1
    units = max(1, _TOGETHER // (terms.last + 1)) if each else size
    bounds = np.searchsorted(every.unit, np.arange(0, size + units, units)).tolist()
    return _joined([
        _judged(every.take(slice(*some)), rules, terms, ends, standing, each=each, stamp=stamp)
        for some in pairwise(bounds)
    ])  # fmt: skip


def _judged(
    every: _Changes, rules: Rules, terms: Terms, ends: Ints, labels: Standing | None, *, each: bool,
    stamp: bool,
) -> Enforced:  # fmt: skip
    """The same for all changes of some units; `each`: see `_UnitTerms.of`."""
    width, reached = rules.width, terms.reached
    unit_terms = _UnitTerms.of(every, terms.last, each=each)
    free, counted = every.take(every.free), every.take(~every.free)

    # Judge.
    starts = np.cumsum(unit_terms.count) - unit_terms.count
    of_term = np.repeat(np.arange(len(unit_terms.unit)), unit_terms.count)
    begin = terms.beginning(unit_terms.term)
    here = (unit_terms.term > 0) & (unit_terms.begin != 0)
    first = np.where(unit_terms.count > 0, np.append(counted.time, [NEVER])[starts], NEVER)
    first = np.where(here, begin, first)
    which = np.zeros(len(first), np.int32)
    if labels is not None and counted.label is not None:
        which = np.where(unit_terms.count > 0, np.append(counted.label, [0])[starts], 0).astype(np.int32)
        which[here] = labels.labels(unit_terms.unit[here], unit_terms.term[here])
    most, period, declared = rules.at_most[which], rules.within[which], rules.declared[which]
    ever, ruled = (first == NEVER) | (period == NEVER), declared[of_term]
    until = np.where(ever, NEVER, np.where(ever, 0, first) + np.minimum(period, MOST_WITHIN))
    inside = (
        (np.arange(len(of_term)) - starts[of_term] < most[of_term]) & (counted.time <= until[of_term]) & ruled
    )
    accepts, leaves, flows = inside, np.full(len(first), NEVER), inside
    if rules.retire:
        leaves, reaches = until, unit_terms.count >= most
        leaves[reaches] = np.minimum(counted.time[starts[reaches] + most[reaches] - 1], until[reaches])
        leaves[(leaves >= terms.ends(unit_terms.term)) | ~declared] = NEVER
        accepts = (counted.time < leaves[of_term]) & ruled
        flows = (counted.time <= leaves[of_term]) & ruled
    left = leaves <= reached
    accepted = np.bincount(of_term[accepts], minlength=len(first))
    standing = np.where(accepted > 0, np.append(counted.now, [0])[starts + accepted - 1], unit_terms.begin)
    final = np.where(left | ~declared, 0, standing).astype(np.int32)
    # `entered`: what is accepted when the term begins
    entered = np.where(declared, unit_terms.begin, 0).astype(np.int32)

    # When a term begins, what is accepted becomes what is true.
    same = np.append([False], unit_terms.unit[1:] == unit_terms.unit[:-1])[: len(first)]
    next_term = same & (unit_terms.term == np.append([0], unit_terms.term[:-1])[: len(first)] + 1)
    before = np.where(next_term, np.roll(final, 1), np.where(same, np.roll(unit_terms.end, 1), 0))
    renewed = np.flatnonzero((unit_terms.term > 0) & (before != entered))
    later = np.flatnonzero(
        (final != unit_terms.end) & (unit_terms.term < terms.last) & ~np.append(next_term[1:], [False])
    )
    gone = np.flatnonzero(left & (standing > 0))
    over = terms.ends(unit_terms.term[later])
    renews, renews_later, goes = (
        np.searchsorted(ends, times) for times in (begin[renewed], over, leaves[gone])
    )
    stamps = None
    if stamp:
        ordinal = np.arange(len(of_term)) - starts[of_term] + 1
        unit, none = unit_terms.unit, np.zeros(len(gone), np.int32)
        stamps = Stamps.joined(
            Stamps(counted.unit, counted.time, ordinal, first[of_term], counted.bin, counted.was, counted.now,
                   accepts).with_flows(counted.flow, flows),
            Stamps.like(free.unit, free.time, free.bin, free.was, free.now, ordinal=NOT_COUNTED)
                  .with_flows(free.flow, np.zeros(len(free.unit), bool)),
            Stamps.like(unit[gone], leaves[gone], goes, standing[gone], none, ordinal=NO_CHANGE,
                        first=first[gone]),
            Stamps.like(unit[renewed], begin[renewed], renews, before[renewed], entered[renewed],
                        ordinal=NO_CHANGE),
            Stamps.like(unit[later], over, renews_later, final[later], unit_terms.end[later],
                        ordinal=NO_CHANGE),
        )  # fmt: skip
    renews, renews_later, goes = renews * width, renews_later * width, goes * width
    known = np.flatnonzero((unit_terms.term == terms.last) & (first != NEVER))
    leaving, true = leaves[known], unit_terms.end[known]
    expires = np.where(leaving > reached, leaving, NEVER)
    if each:  # the next term can change what counts
        expires = np.where(true != 0, np.minimum(expires, terms.until), expires)
    return Enforced(
        units=unit_terms.unit[known],
        changes=np.where(declared, np.minimum(unit_terms.count, most), unit_terms.count)[known],
        first=first[known],
        labels=None if labels is None else which[known],
        leaves=expires,
        settled=expires == NEVER,
        accepted=final[known],
        true=true,
        accepted_changes=net(_moved(counted, accepts, flows, width), width),
        other_changes=net(
            [*_moved(counted, ~accepts, ~flows, width), *_moved(free, slice(None), slice(None), width)], width
        ),
        exits=net(
            [
                (goes + standing[gone], -1),
                (renews + entered[renewed], 1),
                (renews + before[renewed], -1),
                (renews_later + unit_terms.end[later], 1),
                (renews_later + final[later], -1),
            ],
            width,
        ),
        dropped=len(inside) - int(np.count_nonzero(inside)),
        leaving=np.where(declared[known], leaving, reached) if rules.retire else np.full(len(known), reached),
        stamps=stamps,
    )


def _joined(parts: Sequence[Enforced]) -> Enforced:
    """The results for several groups of units as one; what is at the same place is not added up."""
    if len(parts) == 1:
        return parts[0]
    found: dict[str, Any] = {name: [getattr(one, name) for one in parts] for name in vars(parts[0])}
    for name, columns in found.items():
        match columns[0]:
            case np.ndarray():
                found[name] = np.concatenate(columns)
            case tuple():
                found[name] = tuple(map(np.concatenate, zip(*columns, strict=True)))
            case Stamps():
                found[name] = Stamps.joined(*columns)
            case int():
                found[name] = sum(columns)
            case None:
                found[name] = None
    return Enforced(**found)


def _moved(changes: _Changes, some: Any, flows: Any, width: int) -> Sequence[tuple[Ints, int]]:
    """The places of what some changes add and take away, and of what flows count of some of them."""
    place = changes.bin.astype(np.int64) * width
    found = [((place + changes.now)[some], 1), ((place + changes.was)[some], -1)]
    return found if changes.flow is None else [*found, ((place + changes.flow)[flows], 1)]
