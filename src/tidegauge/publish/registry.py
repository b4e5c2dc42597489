"""The formats that readings can be written in, by name.  A new format is one line below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model.publisher import Delivery
from tidegauge.model.registry import Registry
from tidegauge.publish import formats, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tidegauge.model.reading import Reading
    from tidegauge.publish.formats import Row


@dataclass(frozen=True)
class Format:
    """A way to write readings.

    `encode` makes the content from readings; `decode` reads it again, and is None where that cannot be done.
    `text`: whether the content is text, which can go to a terminal.
    """

    name: str
    encode: Callable[[Sequence[Reading]], bytes]
    decode: Callable[[bytes], list[Row]] | None
    text: bool = True


FORMATS: Final[Registry[Format]] = Registry("a format")


def _table(readings: Sequence[Reading]) -> bytes:
    return table.as_text(readings).encode()


for _format in (
    Format("table", _table, None),
    Format("csv", formats.to_csv, formats.from_csv),
    Format("json", formats.to_json, formats.from_json),
    Format("parquet", formats.to_parquet, formats.from_parquet, text=False),
):
    FORMATS.register(_format.name, _format)


def format_named(name: str) -> Format:
    """The format with this name; raises SpecError where there is none."""
    found = FORMATS.find(name)
    if found is None:
        *others, last = FORMATS.names()
        raise SpecError(f"must be {', '.join(others)} or {last}", key="--format")
    return found


@dataclass(frozen=True)
class FilePublisher:
    """Writes readings to a file, in place of what was in it."""

    format: Format
    path: Path

    def deliver(self, readings: Sequence[Reading]) -> Delivery:
        """Write all of them."""
        if self.format.decode is None:
            files = [one.name for one in FORMATS if one.decode is not None]
            choice = f"{', '.join(files[:-1])} or {files[-1]}"
            raise SpecError(
                f"a {self.format.name} goes to the terminal; for a file choose {choice}", key="--format"
            )
        content = self.format.encode(readings)
        try:
            self.path.write_bytes(content)
        except OSError as error:
            raise SpecError(f"{self.path} cannot be written: {error.strerror}", key="--output") from None
        return Delivery(len(readings), self.path.name)


@dataclass(frozen=True)
class TextPublisher:
    """Hands readings as text to a function, such as one that prints."""

    format: Format
    write: Callable[[str], object]

    def deliver(self, readings: Sequence[Reading]) -> Delivery:
        """Write all of them."""
        if not self.format.text:
            raise SpecError(f"{self.format.name} is not text; name a file with --output", key="--format")
        self.write(self.format.encode(readings).decode("utf-8"))
        return Delivery(len(readings), "text")


def decode_file(path: Path) -> list[Row]:
    """The rows of a file that was written in one of the formats, recognised by its content.

    Raises SpecError where the file cannot be read or is in none of them.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path.name} cannot be read: {error.strerror}", key="--against") from None
    for one in FORMATS:
        if one.decode is not None and (rows := _decoded(one.decode, content)) is not None:
            return rows
    known = [one.name for one in FORMATS if one.decode is not None]
    raise SpecError(
        f"{path.name} is not what 'tidegauge readings' writes ({', '.join(known[:-1])} or {known[-1]})",
        key="--against",
    )


def _decoded(decode: Callable[[bytes], list[Row]], content: bytes) -> list[Row] | None:
    """The rows, or None where the content is in another format."""
    try:
        return decode(content)
    except (KeyError, ValueError, TypeError, AttributeError, SpecError):
        return None
