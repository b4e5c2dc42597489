"""Coefficients of Toeplitz measurements: power series, their roots and inverses, and their rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

BITS: Final = 20
"""Measured coefficients are multiples of 2^-20."""
MOST_WHITE: Final = 1e300
"""The most white noise beside a root: twice as much is still a double."""


def bits(count: int) -> int:
    """Binary digits of coefficients for this many bins; later differences are smaller."""
    return BITS + 4 * sum(count > most for most in (1 << 10, 1 << 13))


def power(count: int, exponent: float, beta: float = 1.0) -> Floats:
    """The first coefficients of (1 - beta z)^exponent."""
    steps = np.arange(1, count)
    return np.concatenate([[1.0], np.cumprod((steps - 1 - exponent) / steps * beta)])


def damped_root(count: int, beta: float, white: float) -> Floats:
    """Coefficients on changes that whiten noise of spectrum 1 / |1 - beta z| + white; the first is 1.

    The coefficients fall and are convex: 1 / (1 / f + white) is a Bernstein function of f = |1 - beta z|, so
    it generates a random walk, and its causal root lists the ladder heights of the walk.
    """
    levels = power(count, 0.5, beta)
    if white:
        grid = 8 << max(count, 512).bit_length()
        symbol = np.abs(1 - beta * np.exp(2j * np.pi * np.arange(grid) / grid))
        folded = np.fft.ifft(-0.5 * np.log1p(white * symbol)).real
        folded[1 : grid // 2] *= 2
        folded[grid // 2 + 1 :] = 0
        levels = convolve(levels, np.fft.ifft(np.exp(np.fft.fft(folded))).real[:count])
    return np.cumsum(levels / levels[0])


def window_root(count: int, width: int) -> Floats:
    """The square root of 1 + z + ... + z^(width-1), as a power series."""
    rises, falls = power(count, -0.5), np.zeros(count)
    falls[::width] = power(-(-count // width), 0.5)
    return convolve(rises, falls)


def banded_root(width: int) -> Floats:
    """The square root of 1 + z + z^2 + ..., cut off after `width` coefficients."""
    return power(width, -0.5)


def convolve(first: Floats, second: Floats) -> Floats:
    """The first coefficients of a product of power series."""
    size = 1 << (2 * len(first) - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(first, size) * np.fft.rfft(second, size), size)[: len(first)]


def inverse(series: Floats) -> Floats:
    """The power series whose product with this one is 1, by Newton's iteration."""
    found = np.array([1 / series[0]])
    while len(found) < len(series):
        count = min(2 * len(found), len(series))
        padded = np.concatenate([found, np.zeros(count - len(found))])
        error = -convolve(padded, series[:count])
        error[0] += 2
        found = convolve(padded, error)
    return found


def rounded_convex(falling: Floats, digits: int) -> NDArray[np.int64]:
    """The nearest falling, convex multiples of 2^-digits: rounding keeps the order of differences."""
    first = round(falling[0] * 2**digits)
    falls = np.maximum(np.rint(-np.diff(falling) * 2**digits).astype(np.int64), 0)
    falls = np.minimum.accumulate(falls)
    found = np.concatenate([[first], first - np.cumsum(falls)])
    raised: NDArray[np.int64] = found - min(found[-1], 0)
    return raised


def rounded(series: Floats, digits: int) -> NDArray[np.int64]:
    """The nearest whole multiples of 2^-digits."""
    found: NDArray[np.int64] = np.rint(series * 2**digits).astype(np.int64)
    return found
