"""Errors of dpcrpy's continual counters at rho = 1/2, as its releases state them and as they are drawn."""

from __future__ import annotations

import json
import sys
from math import ceil, log2, sqrt
from typing import Any

import dpcrpy


def counters(bins: int, scale: float) -> dict[str, Any]:
    """Every kind of counter that is made for so many readings, for a unit that changes `scale` times."""

    def noise() -> Any:
        return dpcrpy.noiMech.GaussNoiMech(sigma0=scale)

    order = max(1, ceil(log2(bins)))
    return {
        "BinMech": dpcrpy.BinMech(kOrder=order, noiMech=noise()),
        "Honaker": dpcrpy.Honaker(kOrder=order, noiMech=noise()),
        "BCRG": dpcrpy.BCRG(kOrder=order + 1, noiMech=noise()),
        "ABCRG": dpcrpy.ABCRG(kOrder=order + 1, noiMech=noise()),
        "AuBCR": dpcrpy.AuBCRComp(T=bins, noiMech=noise()),
        "KTCR": dpcrpy.KTCRComp(T=bins, k=2, noiMech=noise()),
    }


def main(asked: dict[str, Any]) -> dict[str, Any]:
    bins, draws = asked["bins"], asked["draws"]
    found: dict[str, Any] = {}
    for name in counters(bins, 1.0):
        try:
            stated = [float(one[-1]) for one in released(counters(bins, 1.0)[name], bins)]
            drawn = [0.0] * bins
            for _ in range(draws):
                for at, one in enumerate(released(counters(bins, 1.0)[name], bins)):
                    drawn[at] += float(one[0]) ** 2 / draws
            found[name] = {"worst": sqrt(max(stated)), "drawn": sqrt(sum(drawn) / sum(stated))}
        except Exception as error:  # noqa: BLE001
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
    return found


def released(counter: Any, bins: int) -> list[Any]:
    """What it publishes of a table that never changes: (value, ..., mean squared error) for each reading."""
    return [counter.dpRelease(0) for _ in range(bins)]


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
