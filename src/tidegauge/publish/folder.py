"""The kind `folder`: CSV or Parquet files, one for each release and month.

    readings/release=by_ward/month=2026-01/readings.csv

Tools that know partitioned folders (DuckDB, Arrow, Spark) read it as one table.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from tidegauge.errors import PublishError
from tidegauge.model.declared import Name, PublisherSpec
from tidegauge.model.publisher import Delivery, Place, PublisherKind
from tidegauge.model.quantity import moment
from tidegauge.publish.atomic import put
from tidegauge.publish.batch import Batch
from tidegauge.publish.formats import to_csv, to_parquet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tidegauge.publish.public.values import PublicReading


class FolderSpec(PublisherSpec):
    """[publish.NAME] with kind = "folder"."""

    kind: Literal["folder"]
    path: Name = "readings"
    format: Literal["csv", "parquet"] = "csv"


@dataclass(frozen=True)
class FolderPublisher:
    """Adds batches to the files of their months."""

    path: Path
    format: Literal["csv", "parquet"]

    def deliver(self, what: Batch) -> Delivery:
        """Write the files of the batch's months again; readings that are there already are not repeated."""
        months: dict[tuple[str, str], list[PublicReading]] = {}
        for reading in what.readings:
            months.setdefault((reading.release, f"{moment(reading.time):%Y-%m}"), []).append(reading)
        for (release, month), readings in months.items():
            folder = self.path / f"release={quote(release, safe='')}" / f"month={month}"
            path = folder / f"readings.{self.format}"
            add = _with_csv if self.format == "csv" else _with_parquet
            try:
                old = path.read_bytes() if path.exists() else None
            except OSError as error:
                raise PublishError(f"{path.name} cannot be read: {error.strerror}") from None
            put(path, add(old, readings))
        return Delivery(len(what.readings), self.path.name)


def _with_csv(old: bytes | None, readings: Sequence[PublicReading]) -> bytes:
    fresh = to_csv(readings)
    if old is None:
        return fresh
    rows = [tuple(row) for content in (old, fresh) for row in csv.reader(io.StringIO(content.decode()))]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(dict.fromkeys(rows))  # the header is the same in both
    return buffer.getvalue().encode()


def _with_parquet(old: bytes | None, readings: Sequence[PublicReading]) -> bytes:
    if old is None:
        return to_parquet(readings)
    import pyarrow as pa  # noqa: PLC0415  (slow to load)
    import pyarrow.parquet as pq  # noqa: PLC0415

    before = pq.read_table(pa.BufferReader(old))
    after = pq.read_table(pa.BufferReader(to_parquet(readings)))
    known = set(map(tuple, (row.values() for row in before.to_pylist())))
    fresh = [n for n, row in enumerate(after.to_pylist()) if tuple(row.values()) not in known]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.concat_tables([before, after.take(fresh)], promote_options="permissive"), sink)
    return bytes(sink.getvalue().to_pybytes())


class FolderKind(PublisherKind[FolderSpec, Batch]):
    """Writes a partitioned folder."""

    spec = FolderSpec

    def open(self, spec: FolderSpec, place: Place) -> FolderPublisher:
        """The publisher of this folder."""
        return FolderPublisher(place.base / spec.path, spec.format)

    def target(self, spec: FolderSpec) -> str:
        """The folder and the format."""
        return f"{spec.format}:{spec.path}"


KIND: Final = FolderKind()
