"""Many messages of the stream in one buffer, so that they can be looked at together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Places = NDArray[np.int64]
    Letters = NDArray[np.uint8]

_MARGIN: Final = bytes(8)
"""Lets a decoder read a number after the last byte; the number that it reads there is not used."""


@dataclass(frozen=True)
class Messages:
    """Messages in their order: their bytes, and where each begins and ends."""

    content: bytes
    starts: Places
    ends: Places

    @classmethod
    def of(cls, messages: Sequence[bytes | memoryview], *, header: int = 0) -> Messages:
        """These messages; each begins with so many bytes that are not part of it."""
        content = b"".join([*messages, _MARGIN])
        ends = np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)))
        starts = np.empty_like(ends)
        starts[:1], starts[1:] = header, ends[:-1] + header
        return cls(content, starts, ends)

    @classmethod
    def joined(cls, parts: Sequence[Messages]) -> Messages:
        """The messages of all parts, in their order."""
        if len(parts) == 1:
            return parts[0]
        shifts = np.cumsum([0, *(len(part.content) for part in parts)])[:-1].tolist()
        pairs = list(zip(parts, shifts, strict=True))
        return cls(
            b"".join([part.content for part in parts]),
            np.concatenate([part.starts + shift for part, shift in pairs] or [np.empty(0, np.int64)]),
            np.concatenate([part.ends + shift for part, shift in pairs] or [np.empty(0, np.int64)]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        return self.content[self.starts[index] : self.ends[index]]

    def since(self, index: int) -> Messages:
        """The messages from this one on."""
        return self.at(slice(index, None))

    def at(self, places: slice | NDArray[np.intp]) -> Messages:
        """Some of the messages."""
        return Messages(self.content, self.starts[places], self.ends[places])

    @property
    def data(self) -> Letters:
        """All bytes, those between the messages included."""
        return np.frombuffer(self.content, np.uint8)

    @property
    def letters(self) -> Letters:
        """The first byte of every message."""
        return self.data[self.starts]


NONE: Final = Messages(_MARGIN, np.empty(0, np.int64), np.empty(0, np.int64))
