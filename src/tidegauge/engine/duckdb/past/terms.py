"""Enforcement over arrays where constraints renew, for rows that are units.  [T15]

A life is what a unit does in one term.  When a term begins, a unit contributes what it truly contributes,
free of charge, and its changes count from 1 again, under the limit of its label.  Lives in which nothing is
decided are left out: if a unit does not change in a term, none is needed, unless it may have to leave, labels
have limits of their own, or the term is the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidegauge.engine.duckdb.past.enforce import MOST_WITHIN, Lives, changes_of, net
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
"""About this many lives are judged at a time: a unit that must leave in every term has as many as terms."""


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
    """The label of its row; None: all units have one limit."""

    def take(self, at: Any) -> _Changes:
        """Some of them."""
        found: dict[str, Any] = {name: None if one is None else one[at] for name, one in vars(self).items()}
        return _Changes(**found)


@dataclass(frozen=True)
class _Lives:
    """The lives of all units, sorted by unit and term."""

    unit: NDArray[np.int32]
    term: Ints
    begin: NDArray[np.int32]
    """The contribution when the term begins ..."""
    end: NDArray[np.int32]
    """... and when it ends."""
    count: Ints
    """How many changes of the life are not free."""

    @classmethod
    def of(cls, changes: _Changes, last: int, *, each: bool) -> _Lives:
        """`each`: units that contribute have a life in every term, not only in the last one."""
        key = changes.unit.astype(np.int64) * (last + 1) + changes.term
        starts = np.flatnonzero(begins(key))
        stops = np.append(starts, len(key))[1:]
        unit, term, free = changes.unit[starts], changes.term[starts], changes.free[starts]
        end = changes.now[stops - 1]
        following = np.append(unit[1:] == unit[:-1], [False])[: len(unit)]
        until = np.where(following, np.append(term[1:], [0])[: len(term)], last + 1)
        between = until - term - 1
        more = np.where(end != 0, between if each else ~following & (between > 0), 0)
        # `more` lives follow each one, in the terms before `until`
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


def enforce_terms(rows: Versions, rules: Rules, terms: Terms, ends: Ints, *, stamp: bool = False) -> Lives:
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
) -> Lives:  # fmt: skip
    """The same for all changes of some units; `each`: see `_Lives.of`."""
    width, reached = rules.width, terms.reached
    lives = _Lives.of(every, terms.last, each=each)
    free, counted = every.take(every.free), every.take(~every.free)

    # Judge.
    starts = np.cumsum(lives.count) - lives.count
    life = np.repeat(np.arange(len(lives.unit)), lives.count)
    begin = terms.beginning(lives.term)
    here = (lives.term > 0) & (lives.begin != 0)
    first = np.where(lives.count > 0, np.append(counted.time, [NEVER])[starts], NEVER)
    first = np.where(here, begin, first)
    which = np.zeros(len(first), np.int32)
    if labels is not None and counted.label is not None:
        which = np.where(lives.count > 0, np.append(counted.label, [0])[starts], 0).astype(np.int32)
        which[here] = labels.labels(lives.unit[here], lives.term[here])
    most, period, declared = rules.at_most[which], rules.within[which], rules.declared[which]
    ever, ruled = (first == NEVER) | (period == NEVER), declared[life]
    until = np.where(ever, NEVER, np.where(ever, 0, first) + np.minimum(period, MOST_WITHIN))
    inside = (np.arange(len(life)) - starts[life] < most[life]) & (counted.time <= until[life]) & ruled
    accepts, leaves, flows = inside, np.full(len(first), NEVER), inside
    if rules.retire:
        leaves, reaches = until, lives.count >= most
        leaves[reaches] = np.minimum(counted.time[starts[reaches] + most[reaches] - 1], until[reaches])
        leaves[(leaves >= terms.ends(lives.term)) | ~declared] = NEVER
        accepts = (counted.time < leaves[life]) & ruled
        flows = (counted.time <= leaves[life]) & ruled
    left = leaves <= reached
    accepted = np.bincount(life[accepts], minlength=len(first))
    standing = np.where(accepted > 0, np.append(counted.now, [0])[starts + accepted - 1], lives.begin)
    final = np.where(left | ~declared, 0, standing).astype(np.int32)
    entered = np.where(declared, lives.begin, 0).astype(np.int32)  # what is accepted when the term begins

    # When a term begins, what is accepted becomes what is true.
    same = np.append([False], lives.unit[1:] == lives.unit[:-1])[: len(first)]
    next_term = same & (lives.term == np.append([0], lives.term[:-1])[: len(first)] + 1)
    before = np.where(next_term, np.roll(final, 1), np.where(same, np.roll(lives.end, 1), 0))
    renewed = np.flatnonzero((lives.term > 0) & (before != entered))
    later = np.flatnonzero(
        (final != lives.end) & (lives.term < terms.last) & ~np.append(next_term[1:], [False])
    )
    gone = np.flatnonzero(left & (standing > 0))
    over = terms.ends(lives.term[later])
    renews, renews_later, goes = (
        np.searchsorted(ends, times) for times in (begin[renewed], over, leaves[gone])
    )
    stamps = None
    if stamp:
        ordinal = np.arange(len(life)) - starts[life] + 1
        unit, none = lives.unit, np.zeros(len(gone), np.int32)
        stamps = Stamps.joined(
            Stamps(counted.unit, counted.time, ordinal, first[life], counted.bin, counted.was, counted.now,
                   accepts).with_flows(counted.flow, flows),
            Stamps.like(free.unit, free.time, free.bin, free.was, free.now, ordinal=NOT_COUNTED)
                  .with_flows(free.flow, np.zeros(len(free.unit), bool)),
            Stamps.like(unit[gone], leaves[gone], goes, standing[gone], none, ordinal=NO_CHANGE,
                        first=first[gone]),
            Stamps.like(unit[renewed], begin[renewed], renews, before[renewed], entered[renewed],
                        ordinal=NO_CHANGE),
            Stamps.like(unit[later], over, renews_later, final[later], lives.end[later], ordinal=NO_CHANGE),
        )  # fmt: skip
    renews, renews_later, goes = renews * width, renews_later * width, goes * width
    known = np.flatnonzero((lives.term == terms.last) & (first != NEVER))
    leaving, true = leaves[known], lives.end[known]
    expires = np.where(leaving > reached, leaving, NEVER)
    if each:  # the next term can change what counts
        expires = np.where(true != 0, np.minimum(expires, terms.until), expires)
    return Lives(
        units=lives.unit[known],
        moves=np.where(declared, np.minimum(lives.count, most), lives.count)[known],
        first=first[known],
        labels=None if labels is None else which[known],
        leaves=expires,
        stays=expires == NEVER,
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
                (renews_later + lives.end[later], 1),
                (renews_later + final[later], -1),
            ],
            width,
        ),
        dropped=len(inside) - int(np.count_nonzero(inside)),
        leaving=np.where(declared[known], leaving, reached) if rules.retire else np.full(len(known), reached),
        stamps=stamps,
    )


def _joined(lives: Sequence[Lives]) -> Lives:
    """The results for several groups of units as one; what is at the same place is not added up."""
    if len(lives) == 1:
        return lives[0]
    found: dict[str, Any] = {name: [getattr(one, name) for one in lives] for name in vars(lives[0])}
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
    return Lives(**found)


def _moved(changes: _Changes, some: Any, flows: Any, width: int) -> Sequence[tuple[Ints, int]]:
    """The places of what some changes add and take away, and of what flows count of some of them."""
    place = changes.bin.astype(np.int64) * width
    found = [((place + changes.now)[some], 1), ((place + changes.was)[some], -1)]
    return found if changes.flow is None else [*found, ((place + changes.flow)[flows], 1)]
