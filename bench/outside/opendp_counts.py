"""Errors of OpenDP's releases of a running count at rho = 1/2, from noise that OpenDP draws."""

from __future__ import annotations

import json
import sys
from itertools import accumulate
from math import sqrt
from typing import Any

import opendp.prelude as dp


def tree(bins: int, changes: list[int], branching: int, draws: int) -> dict[str, float]:
    """Root mean squared error of the worst reading of a b-ary tree that is made consistent at the end, by k.

    One half of the draws finds the worst reading, the other half measures it.  Noise is drawn for the first
    k; the others have the scale that OpenDP's own map asks for, and errors are proportional to the scale.
    """
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=int)
    counts = dp.t.make_b_ary_tree(*space, leaf_count=bins, branching_factor=branching)
    scales = {
        k: dp.binary_search_param(lambda scale: counts >> dp.m.then_gaussian(scale), d_in=k, d_out=0.5)
        for k in changes
    }
    first = scales[changes[0]]
    release = counts >> dp.m.then_gaussian(first)
    consistent = dp.t.make_consistent_b_ary_tree(branching)
    halves = [[0.0] * bins, [0.0] * bins]
    for draw in range(draws):
        leaves = consistent(release([0] * bins))[:bins]
        for at, value in enumerate(accumulate(leaves)):
            halves[draw % 2][at] += value**2 / (draws // 2)
    worst = max(range(bins), key=lambda at: halves[0][at])
    return {str(k): sqrt(halves[1][worst]) * scale / first for k, scale in scales.items()}


def one_shot(bins: int, draws: int) -> float:
    """Root mean squared error of single counts that share rho evenly."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    count = dp.t.make_count(*space)
    release = dp.binary_search_chain(
        lambda scale: count >> dp.m.then_gaussian(scale), d_in=1, d_out=0.5 / bins
    )
    return sqrt(sum((release([1] * 10) - 10) ** 2 for _ in range(draws)) / draws)


def main(asked: dict[str, Any]) -> dict[str, Any]:
    dp.enable_features("contrib", "honest-but-curious")
    trees = [tree(asked["bins"], asked["changes"], c, asked["draws"]) for c in asked["branchings"]]
    best = {str(k): min(one[str(k)] for one in trees) for k in asked["changes"]}
    found: dict[str, Any] = {"one-shot": one_shot(asked["bins"], 20 * asked["draws"]), "tree": best}
    return found


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
