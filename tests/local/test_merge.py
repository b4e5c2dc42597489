"""T12 against weighted least squares on everything that is known by each window."""

from __future__ import annotations

import numpy as np
import pytest

from tidegauge.local.merge import Measured, merge


def measured(rng: np.random.Generator, nodes: int) -> Measured:
    planned = rng.uniform(0.5, 4, nodes)
    return Measured(planned, rng.normal(size=(nodes, 2)), rng.uniform(0.5, 4, (nodes, 3)))


def least_squares(
    windows: int, levels: dict[int, Measured], snapshots: Measured | None, t: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """Planned variance, value and spread of window t from all measurements up to t, by matrix inversion."""
    rows, values, planned, spreads = [], [], [], []

    def note(start: int | None, end: int, source: Measured, node: int) -> None:
        row = np.zeros(windows)
        row[end] = 1
        if start is not None and start >= 0:
            row[start] = -1
        if np.isfinite(source.planned[node]):
            rows.append(row)
            values.append(source.value[node])
            planned.append(source.planned[node])
            spreads.append(source.spread[node])

    for level, source in levels.items():
        for node in range((t + 1) >> level):
            note((node << level) - 1, ((node + 1) << level) - 1, source, node)
    if snapshots is not None:
        for node in range(t + 1):
            note(None, node, snapshots, node)
    H, W = np.array(rows)[:, : t + 1], np.diag(1 / np.array(planned))
    inverse = np.linalg.inv(H.T @ W @ H)
    weights = (inverse @ H.T @ W)[t]
    return inverse[t, t], weights @ np.array(values), weights**2 @ np.array(spreads)


@pytest.mark.parametrize(
    ("levels", "with_snapshots"),
    [((0,), False), ((0, 1, 2), False), ((0, 2), True), ((1, 2), True), ((), True)],
)
def test_it_is_the_best_linear_estimate(levels: tuple[int, ...], with_snapshots: bool) -> None:
    rng, windows = np.random.default_rng(5), 13
    evidence = {level: measured(rng, windows >> level) for level in levels}
    snapshots = measured(rng, windows) if with_snapshots else None
    found = merge(windows=windows, levels=evidence, snapshots=snapshots)
    for t in range(windows):
        planned, value, spread = least_squares(windows, evidence, snapshots, t)
        assert found.planned[t] == pytest.approx(planned, rel=1e-9)
        assert found.value[t] == pytest.approx(value, rel=1e-9)
        assert found.spread[t] == pytest.approx(spread, rel=1e-9)


def test_a_window_without_reports_is_bridged_or_unknown() -> None:
    rng, windows = np.random.default_rng(5), 8
    bottom, top = measured(rng, windows), measured(rng, windows >> 1)
    bottom.planned[2] = np.inf
    found = merge(windows=windows, levels={0: bottom, 1: top})
    assert np.isnan(found.value[2]).all()
    assert np.isfinite(found.value[[0, 1, 3, 4, 5, 6, 7]]).all()
    assert found.planned[3] == pytest.approx(found.planned[1] + top.planned[1])
