"""Worst errors of jax-privacy's matrix factorizations at rho = 1/2, as its own functions state them."""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import jax.numpy as jnp
from jax_privacy.matrix_factorization import buffered_toeplitz, dense, sensitivity, toeplitz


def of_coefficients(coefficients: Any, bins: int, changes: int) -> float:
    """Worst error of a Toeplitz strategy for so many changes of any sign."""
    size = toeplitz.minsep_sensitivity_squared(coefficients, min_sep=1, max_participations=changes, n=bins)
    return float(jnp.sqrt(size * toeplitz.per_query_error(strategy_coef=coefficients, n=bins).max()))


def main(asked: dict[str, Any]) -> dict[str, Any]:
    jax.config.update("jax_enable_x64", True)
    bins = asked["bins"]
    root = toeplitz.optimal_max_error_strategy_coefs(bins)
    found: dict[str, dict[str, float]] = {"square root": {}}
    if asked["optimise"]:
        found |= {"buffered Toeplitz, 3 buffers": {}, "dense": {}}
        matrix = dense.optimize(bins, epochs=1, max_optimizer_steps=300)
        error = float(jnp.sqrt(dense.per_query_error(strategy_matrix=matrix).max()))
    for k in asked["changes"]:
        found["square root"][str(k)] = of_coefficients(root, bins, k)
        if asked["optimise"]:
            blt = buffered_toeplitz.optimize(
                n=bins, min_sep=1, max_participations=k, min_buffers=3, max_buffers=3
            )
            found["buffered Toeplitz, 3 buffers"][str(k)] = of_coefficients(blt.toeplitz_coefs(bins), bins, k)
            bound = sensitivity.get_min_sep_sensitivity_upper_bound(matrix, 1, k)
            found["dense"][str(k)] = error * float(bound)
    return found


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
