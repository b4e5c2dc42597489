"""Errors of multi-freq-ldpy's estimates of shares: a fresh report a window, or one kept for each answer."""

from __future__ import annotations

import json
import sys
from math import sqrt
from typing import Any

import numpy as np
from multi_freq_ldpy.long_freq_est.dBitFlipPM import dBitFlipPM_Aggregator_MI, dBitFlipPM_Client
from multi_freq_ldpy.long_freq_est.L_OSUE import L_OSUE_Aggregator_MI, L_OSUE_Client
from multi_freq_ldpy.pure_frequency_oracles.ADP import ADP_Aggregator_MI, ADP_Client


def shares(asked: dict[str, Any]) -> dict[str, float]:
    """Root mean squared error of a share, by protocol."""
    lives, z, epsilon = np.array(asked["lives"]), asked["answers"], asked["epsilon"]
    windows, states = asked["windows"], asked["states"]
    truth = [np.bincount(column, minlength=z) / len(lives) for column in lives.T]
    found: dict[str, float] = {}

    def error(estimates: list[Any]) -> float:
        return sqrt(float(np.mean([(one - true) ** 2 for one, true in zip(estimates, truth, strict=True)])))

    each = epsilon / windows
    found["ADP, epsilon / T a window"] = error(
        [
            ADP_Aggregator_MI(np.array([ADP_Client(int(one), z, each) for one in column]), z, each)
            for column in lives.T
        ]
    )
    kept = epsilon / states
    memories: dict[tuple[int, int], Any] = {}
    estimates = []
    for column in lives.T:
        for person, one in enumerate(column):
            if (person, int(one)) not in memories:
                memories[person, int(one)] = dBitFlipPM_Client(int(one), z, z, 1, kept)
        reports = [memories[person, int(one)] for person, one in enumerate(column)]
        estimates.append(dBitFlipPM_Aggregator_MI(reports, z, 1, kept))
    found["dBitFlipPM, kept"] = error(estimates)
    memories, estimates = {}, []
    for column in lives.T:
        for person, one in enumerate(column):
            if (person, int(one)) not in memories:
                memories[person, int(one)] = L_OSUE_Client(int(one), z, kept, kept * 0.99)
        reports = [memories[person, int(one)] for person, one in enumerate(column)]
        estimates.append(L_OSUE_Aggregator_MI(np.array(reports), kept, kept * 0.99))
    found["L-OSUE, kept"] = error(estimates)
    return found


if __name__ == "__main__":
    print(json.dumps(shares(json.load(sys.stdin))))
