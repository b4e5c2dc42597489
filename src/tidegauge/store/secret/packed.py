"""A matrix of secret integers as text of a length that depends on its shape alone."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.errors import StoreCorrupt

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WIDTH: Final = 8
"""Bytes of an integer, unless one of them is larger."""


def packed(rows: NDArray[np.object_]) -> tuple[int, int, str]:
    """(columns, bytes per integer, text) of a matrix."""
    values = [int(value) for value in rows.ravel().tolist()]
    width = max([_WIDTH, *(value.bit_length() // 8 + 1 for value in values)])
    if width == _WIDTH:
        content = np.array(values, dtype="<i8").tobytes()
    else:
        content = b"".join(value.to_bytes(width, "little", signed=True) for value in values)
    return rows.shape[1], width, base64.b64encode(content).decode()


def unpacked(columns: int, width: int, text: str) -> NDArray[np.object_]:
    """The matrix.  Raises StoreCorrupt if the text is not one."""
    try:
        content = base64.b64decode(text, validate=True)
        if width == _WIDTH:
            values = np.frombuffer(content, dtype="<i8").astype(object)
        else:
            values = np.empty(len(content) // width, dtype=object)
            for at in range(len(values)):
                piece = content[at * width : (at + 1) * width]
                values[at] = int.from_bytes(piece, "little", signed=True)
        return values.reshape(-1, columns)
    except ValueError:
        raise StoreCorrupt("the noise that was drawn ahead cannot be read: the store was altered") from None
