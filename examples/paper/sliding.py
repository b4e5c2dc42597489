"""Theorem 4.8: from which window on a sliding release is better summed from a hierarchy."""

from __future__ import annotations

from collections.abc import Sequence

from figure import Line, Panel, main

from tidegauge import AtMost
from tidegauge.theory import cover, hdcr_folds, hierarchy_beats_sliding, sliding_from_hierarchy, swcr_folds

BRANCHING = 2
ONCE = AtMost(1)


def nodes(window: int, height: int) -> list[int]:
    """How many nodes each sliding window is summed from, over all places where it can lie."""
    period = BRANCHING ** (height - 1)
    return [len(cover(left, left + window, branching=BRANCHING, height=height)) for left in range(period)]


def panels(small: bool) -> Sequence[Panel]:
    windows = range(2, 20 if small else 65)
    direct, most, mean, rule = [], [], [], []
    for window in windows:
        _, height = sliding_from_hierarchy(window=window, period=1, branching=BRANCHING)
        loss = hdcr_folds(ONCE, width=1, branching=BRANCHING, height=height, initial=False) ** 2
        needed = nodes(window, height)
        direct.append((window, swcr_folds(ONCE, window=window, period=1) ** 2))
        most.append((window, max(needed) * loss))
        mean.append((window, sum(needed) / len(needed) * loss))
        rule.append((window, 2 * (BRANCHING - 1) * height * loss))
    crossing = next(
        window
        for window in windows
        if all(
            hierarchy_beats_sliding(ONCE, window=w, period=1, branching=BRANCHING)
            for w in windows
            if w >= window
        )
    )
    lines = [
        Line("measured directly (SWCR)", direct),
        Line("rule of the paper", rule),
        Line("worst window", most),
        Line("mean over windows", mean),
    ]
    return [
        Panel("Sliding windows: measured, or summed from a hierarchy", "window W, in periods",
              "variance at equal loss, in variances of one measurement with the whole budget",
              lines, log_y=True, notes=[(crossing, f"the rule holds from {crossing} on")])
    ]  # fmt: skip


if __name__ == "__main__":
    main(
        "sliding.svg", "Variance of sliding windows, direct and from a hierarchy, c = 2, pure epsilon", panels
    )
