"""The bytes of one file, unpacked and checked on their way to a parser.

Parsers accept a missing closing quote (and swallow the rows after it) or a file that ends in the middle.
Both are caught here, at the speed of a memory scan.  Only then is the place searched, line by line.
"""

from __future__ import annotations

import gzip
import io
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from tidegauge.source.batch.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK: Final = 1 << 24
"""Bytes that are parsed at a time; a longer row is refused."""
TOO_LONG: Final = f"is longer than {BLOCK >> 20} MiB"

BOM: Final = b"\xef\xbb\xbf"
_QUOTE: Final = ord('"')


class Blemish(Exception):
    """A fault that a parser would accept; the reader of the file then searches its line."""


@contextmanager
def unpacked(path: Path, name: str) -> Iterator[gzip.GzipFile | io.BufferedReader]:
    """Open a file, through gzip if its name ends in .gz.  Raises SourceError if the file cannot be read."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield stream
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise refusal("the gzip is damaged or cut short; copy the file again", path=name) from None
    except OSError as error:
        raise refusal(f"the file cannot be read ({error.strerror or 'I/O error'})", path=name) from None


def lines(path: Path, name: str) -> Iterator[tuple[int, str]]:
    """The lines and their numbers, one character a byte; for headers and for finding faults, not for data."""
    with unpacked(path, name) as stream, io.TextIOWrapper(stream, encoding="latin-1", newline="") as text:
        number = 0
        while line := text.readline(BLOCK):
            number += 1
            if len(line) == BLOCK:
                raise refusal(f"the line {TOO_LONG}", path=name, line=number)
            yield number, line


class Guard:
    """A stream that raises Blemish at a forbidden byte and, with a delimiter, at a stray quote."""

    closed = False

    def __init__(
        self, stream: gzip.GzipFile | io.BufferedReader, *, forbidden: bytes, delimiter: str | None = None
    ) -> None:
        self._stream = stream
        self._ahead = stream.read(1)
        self._forbidden = [bytes([byte]) for byte in forbidden]
        self._quoting = delimiter is not None
        self._beside_quote = np.isin(np.arange(256), list(f'\r\n"{delimiter}'.encode()))
        self._last = b"\n"
        self._inside = False

    def read(self, size: int) -> bytes:
        """The next bytes."""
        chunk, self._ahead = self._ahead[:size], self._ahead[size:]
        chunk += self._stream.read(size - len(chunk))
        if any(byte in chunk for byte in self._forbidden) or (self._quoting and self._stray_quote(chunk)):
            raise Blemish
        return chunk

    @property
    def exhausted(self) -> bool:
        """Whether the file has no bytes; to be asked before the first read."""
        return not self._ahead

    def close(self) -> None:
        """Do nothing: the caller who opened the stream closes it."""

    def _stray_quote(self, chunk: bytes) -> bool:
        """Whether a quote is neither at the start nor at the end of its field; a doubled one is both."""
        if not chunk:
            return self._inside
        closed_before = self._last == b'"' and not self._inside
        if closed_before and not self._beside_quote[chunk[0]]:
            return True
        last, self._last = self._last, chunk[-1:]
        if b'"' not in chunk:
            return False
        window = np.frombuffer(last + chunk, dtype=np.uint8)
        quotes = np.flatnonzero(window[1:] == _QUOTE) + 1
        opening, closing = quotes[self._inside :: 2], quotes[not self._inside :: 2]
        self._inside ^= len(quotes) % 2 == 1
        before, after = window[opening - 1], window[closing[closing + 1 < len(window)] + 1]
        return not (self._beside_quote[before].all() and self._beside_quote[after].all())
