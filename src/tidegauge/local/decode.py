"""From counts of reports to estimates for everybody on the roster, with their covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidegauge.errors import LocalError
from tidegauge.local.design import prefix_nodes, response_law
from tidegauge.local.groups import (
    Memoized,
    Response,
    Snapshot,
    Tilted,
    decoder,
    oracle,
    tilted_variance,
)
from tidegauge.local.merge import Measured, merge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.local.survey import Survey
    from tidegauge.local.tally import Layout

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

_FEW = 8  # with fewer reports of a role in a window, the roles are pooled


@dataclass(frozen=True)
class Histogram:
    """Estimated counts of every answer in every window, for everybody on the roster.

    roster:     (windows,)
    value:      (windows, answers); NaN in a window about which nothing was reported
    covariance: (windows, answers, answers)
    """

    roster: Integers
    value: Floats
    covariance: Floats

    @property
    def stderr(self) -> Floats:
        """Standard errors."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2), 0.0))

    def on_simplex(self) -> Floats:
        """The nearest possible counts: none is negative, and with "not there" they add up to the roster."""
        whole = np.column_stack([self.value, self.roster - self.value.sum(axis=1)])
        falling = np.sort(whole, axis=1)[:, ::-1]
        excess = (np.cumsum(falling, axis=1) - self.roster[:, None]) / np.arange(1, whole.shape[1] + 1)
        last = np.maximum((falling > excess).sum(axis=1) - 1, 0)
        return np.asarray(np.maximum(self.value - excess[np.arange(len(whole)), last][:, None], 0.0))


class _Layer(NamedTuple):
    """Estimated changes in the nodes of a layer: (nodes, answers) and (nodes, answers, answers)."""

    value: Floats
    covariance: Floats


def roster(layout: Layout, tally: Integers) -> Integers:
    """People who have taken part up to each window: first reports, or the most reports in one window."""
    present = tally[:, layout.speaking].sum(axis=1) + tally[:, layout.idle].sum(axis=1)
    return np.maximum(np.cumsum(tally[:, 0]), np.maximum.accumulate(present))


def histogram(survey: Survey, layout: Layout, tally: Integers) -> Histogram:
    """The running histogram: for every window, the counts at its end."""
    found = _Evidence(survey, layout, tally)
    z, head = len(survey.answers), survey.groups[0]
    if isinstance(head, Response):
        return Histogram(found.people, *_prefix_sums(survey, head, found.response(head)))
    levels = {group.level: found.tilted(group) for group in survey.groups if isinstance(group, Tilted)}
    states = [found.states(group) for group in survey.groups if isinstance(group, Snapshot | Memoized)]
    if levels:
        merged = merge(windows=survey.windows, levels=levels, snapshots=states[0] if states else None)
        return Histogram(found.people, merged.value, merged.spread.reshape(-1, z, z))
    known = np.isfinite(states[0].planned)[:, None]
    value, spread = (np.where(known, each, np.nan) for each in (states[0].value, states[0].spread))
    return Histogram(found.people, value, spread.reshape(-1, z, z))


def net_changes(survey: Survey, layout: Layout, tally: Integers) -> Histogram:
    """The change in each single window; raises LocalError if the protocol does not report it."""
    found, z = _Evidence(survey, layout, tally), len(survey.answers)
    for group in survey.groups:
        if isinstance(group, Response):
            return Histogram(found.people, *found.response(group)[0])
        if isinstance(group, Tilted) and group.level == 0:
            measured = found.tilted(group)
            known = np.isfinite(measured.planned)[:, None]
            value, spread = (np.where(known, each, np.nan) for each in (measured.value, measured.spread))
            return Histogram(found.people, value, spread.reshape(-1, z, z))
    raise LocalError(
        f"protocol {survey.protocol!r} does not ask for the change in a single window; use the running values"
    )


class _Evidence:
    """The reports of each group of a survey, scaled up to the whole roster."""

    def __init__(self, survey: Survey, layout: Layout, tally: Integers) -> None:
        self.survey, self.layout, self.tally = survey, layout, tally
        self.people = roster(layout, tally)
        self.answers = len(survey.answers)

    def states(self, group: Snapshot | Memoized) -> Measured:
        """Estimated counts of the answers."""
        z, role = self.answers, self.layout.groups.index(group)
        law = oracle(group.oracle, epsilon=self.survey.loss(group), answers=z)
        begin, reports = self.layout.symbols[role], self.tally[:, self.layout.speaking[role]]
        output = self.tally[:, begin : begin + z] / np.maximum(reports, 1)[:, None]
        share = (output - law.q) / (law.p - law.q)
        among = _diagonal(share) - _outer(share)  # as if the people who reported were drawn from the others
        if group.oracle == "grr":
            single = (_diagonal(output) - _outer(output)) / (law.p - law.q) ** 2
        else:
            own = output * (1 - output) / (law.p - law.q) ** 2
            single = _diagonal(own - share * (1 - share)) + among
        planned = law.variance(1 / z)
        everywhere = np.ones(len(reports))
        return _scaled_up(
            people=self.people,
            reports=reports,
            share=share,
            single=single * _unbiased(reports)[:, None, None],
            among=among,
            noise=planned.noise * everywhere,
            known=planned.known * everywhere,
        )

    def tilted(self, group: Tilted) -> Measured:
        """Estimated changes in every node of a level."""
        z, law, layout = self.answers, group.law, self.layout
        roles = [role for role, each in enumerate(layout.groups) if each == group]
        nodes = self.survey.windows >> group.level
        ends = (np.arange(1, nodes + 1) << group.level) - 1
        reports = self.tally[np.ix_(ends, layout.speaking[roles])]  # (nodes, rows)
        spoken = np.stack(
            [self.tally[ends, layout.symbols[r] + 1 : layout.symbols[r + 1]] for r in roles], axis=1
        )
        total = reports.sum(axis=1)
        few = reports.min(axis=1) < _FEW  # then the roles are pooled
        each = np.where(few[:, None], np.maximum(total, 1)[:, None] / len(roles), np.maximum(reports, 1))
        output = spoken / each[:, :, None]
        weights = decoder(group.map, z, float(law.gap))  # (rows, answers, signals)
        by_row = np.einsum("ras,nrs->nra", weights, output)
        value = by_row.sum(axis=1)
        squares = np.einsum("ras,rbs,nrs->nrab", weights, weights, output)
        within = (squares - _outer(by_row)) * (_unbiased(reports) / each)[:, :, None, None]
        stratified = within.sum(axis=1) * total[:, None, None]
        pooled = (squares.sum(axis=1) * len(roles) - _outer(value)) * _unbiased(total)[:, None, None]
        noise, known = np.empty(nodes), np.empty(nodes)
        moving = self.survey.setting.moving_share(nodes)
        for place, joining in ((slice(1, None), False), (slice(0, 1), True)):
            noise[place], known[place] = tilted_variance(group.map, z, law, moving=moving, joining=joining)
        return _scaled_up(
            people=self.people[ends],
            reports=total,
            share=value,
            single=np.where(few[:, None, None], pooled, stratified),
            among=_diagonal(np.abs(value))
            - _outer(value),  # a change is at least as common as its net effect
            noise=noise,
            known=known,
        )

    def response(self, group: Response) -> list[_Layer]:
        """Estimated changes in every node of every layer, by the paper's formulas."""
        z, cells = self.answers, (self.answers + 1) ** 2
        p, q = response_law(cells=cells, loss=self.survey.loss(group))
        before, after = np.divmod(np.arange(cells), z + 1)
        effect = (after == np.arange(z)[:, None]) * 1.0 - (before == np.arange(z)[:, None])  # M_dv
        found = []
        for layer in range(group.layers):
            width, begin = group.branching**layer, self.layout.symbols[0] + layer * cells
            ends = np.arange(1, self.survey.windows // width + 1) * width - 1
            output = self.tally[ends, begin : begin + cells]
            reports = output.sum(axis=1)
            share = output @ effect.T / (p - q) / np.maximum(reports, 1)[:, None]
            true = (output - q * reports[:, None]) / (p - q)  # the closed-form inverse of P*
            counts = np.maximum(reports, 1)[:, None, None]
            single = np.einsum("ac,bc,nc->nab", effect, effect, output) / (p - q) ** 2 / counts
            moved = np.einsum("ac,bc,nc->nab", effect, effect, true) / counts
            people = self.people[ends][:, None, None]
            covariance = people * (people / counts * (single - _outer(share)) - (moved - _outer(share)))
            found.append(_Layer(self.people[ends][:, None] * share, covariance))
        return found


def _scaled_up(
    *,
    people: Integers,
    reports: Integers,
    share: Floats,
    single: Floats,
    among: Floats,
    noise: Floats,
    known: Floats,
) -> Measured:
    """Reports of some people as estimated counts of everybody.

    The weights depend on numbers of reports alone, never on answers.
    """
    scale = people / np.maximum(reports, 1)
    planned = np.maximum(people * (scale * noise - known), 1e-9)
    covariance = people[:, None, None] * (scale[:, None, None] * single - among)
    alone = reports < 2
    covariance[alone] = _diagonal(np.repeat(planned[alone, None], share.shape[1], axis=1))
    return Measured(
        planned=np.where(reports > 0, planned, np.inf),
        value=people[:, None] * share,
        spread=covariance.reshape(len(people), -1),
    )


def _unbiased(reports: Integers) -> Floats:
    """Bessel's correction of a variance about the mean of this many reports."""
    return np.asarray(reports / np.maximum(reports - 1, 1))


def _outer(vectors: Floats) -> Floats:
    return np.asarray(vectors[..., :, None] * vectors[..., None, :])


def _diagonal(vectors: Floats) -> Floats:
    return np.asarray(vectors[..., :, None] * np.eye(vectors.shape[-1]))


def _prefix_sums(survey: Survey, group: Response, layers: list[_Layer]) -> _Layer:
    """The running value of every window, from the changes in the nodes that make it up."""
    z = len(survey.answers)
    value, covariance = np.zeros((survey.windows, z)), np.zeros((survey.windows, z, z))
    for window in range(survey.windows):
        for layer, index in prefix_nodes(window, branching=group.branching, layers=group.layers):
            value[window] += layers[layer].value[index]
            covariance[window] += layers[layer].covariance[index]
    return _Layer(value, covariance)
