"""Orders of integers, sorted by digits of 16 bits: numpy does this in linear time, without comparing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

_DIGIT: Final = 16
_MOST: Final = 3
"""With more digits, comparing is faster."""


def order_of(numbers: NDArray[Any]) -> Ints:
    """The places sorted by these integers, and then by place."""
    if not len(numbers):
        return np.zeros(0, np.int64)
    least = numbers.min()
    bits = (int(numbers.max()) - int(least)).bit_length()
    if bits > _MOST * _DIGIT:
        return np.argsort(numbers, kind="stable")
    digits: NDArray[Any] = numbers.astype(np.uint32 if bits <= 2 * _DIGIT else np.uint64)
    digits -= digits.dtype.type(int(least) % 2 ** (8 * digits.itemsize))
    order = np.argsort(digits.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT, bits, _DIGIT):
        digit = (digits[order] >> digits.dtype.type(shift)).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    return order


def begins(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """For places at which equal values are together: which is the first of its values."""
    first = np.ones(len(columns[0]), bool)
    if len(first):
        first[1:] = columns[0][1:] != columns[0][:-1]
        for column in columns[1:]:
            first[1:] |= column[1:] != column[:-1]
    return first
