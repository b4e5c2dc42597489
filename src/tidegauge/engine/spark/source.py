"""Files and tables of the Spark session as changelogs.

Files are read whole and are not changed afterwards; new files may be added.  Rows of a new file whose time
has passed are delivered late.  A table is read by its column `order`: rows above the last one are new.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from tidegauge.engine.spark.changes import INTEGERS, Changes, Roles, plain, time_of, where_of
from tidegauge.engine.spark.paths import literally
from tidegauge.engine.spark.render import quote
from tidegauge.engine.spark.session import REFUSED, condition, session, settled
from tidegauge.errors import SourceError, SpecError
from tidegauge.model.mutation import Batch
from tidegauge.model.source import OpenSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader
    from pyspark.sql.types import StructType

    from tidegauge.engine.spark.changes import Load
    from tidegauge.engine.spark.spec import SparkSpec

    Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)

_SLASHES: Final = re.compile("^([A-Za-z0-9+.-]+):/+")
_DECODED: Final = "url_decode(replace(_metadata.file_path, '+', '%2B'))"  # a plus is no space here
_FILE: Final = f"regexp_replace({_DECODED}, '^([A-Za-z0-9+.-]+):/+', '$1:/')"
"""SQL: the name of a row's file, in the one form in which positions have it."""
_TEXT: Final = ("csv", "json")
_UNREAD: Final = "_tidegauge_unread"
"""The column in which Spark's readers of text put lines that they cannot read."""
_MOST_FILES: Final = 2**15
NOTHING: Final = pa.table({"time": pa.array([], pa.int64()), "entry": pa.array([], pa.string())})
"""The rows of a batch whose changes are elsewhere."""
_DECLARED: Final = {
    "text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "boolean": "BOOLEAN", "date": "DATE",
    "time": "TIMESTAMP", "timestamp": "TIMESTAMP",
}  # fmt: skip
_TYPES: Final = {
    "string": "VARCHAR", "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER",
    "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "date": "DATE", "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip


class SessionSource(OpenSource):
    """What files and tables of the session have in common."""

    engine = "spark"

    def __init__(self, spec: SparkSpec) -> None:
        self._spec = spec
        self._roles = Roles(
            time=spec.time, key=spec.key, before=spec.before, after=spec.after or "", op=spec.op,
            time_unit=spec.time_unit, types=spec.types, order=spec.order, unit=spec.unit,
        )  # fmt: skip

    @property
    def table(self) -> str:
        """The table's name in SQL."""
        return self._spec.table.rpartition(".")[2]

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The columns of the table, with the types that the embedded engine would call them."""
        schema = self._schema()
        columns = self._roles.columns(schema)
        with settled(self._spark):
            time_of(self._roles, schema)
        found = {}
        for name, (old, new) in columns.items():
            declared = self._spec.types.get(name)
            if declared is not None and declared not in _DECLARED:
                raise SpecError(f"must be one of {', '.join(_DECLARED)}", key=f"source.types.{name}")
            found[name] = _DECLARED[declared] if declared else _embedded(schema[str(new or old)])
        return found

    @property
    def _spark(self) -> SparkSession:
        return session()

    def _schema(self) -> dict[str, str]:
        """The columns as the session names their types.  Raises SourceError if they cannot be read."""
        spark = self._spark  # says what is missing, before anything of PySpark is loaded
        from py4j.protocol import Py4JError  # noqa: PLC0415  (loaded when first used)
        from pyspark.errors import PySparkException  # noqa: PLC0415

        with settled(spark):
            try:
                return dict(self._load(spark).drop("_seq").dtypes)
            except (PySparkException, Py4JError) as error:
                what, kind = self._spec.path or self._spec.table, ""
                if self._spec.path is not None:
                    kind = f" as {self._spec.file_format}"
                raise SourceError(f"Spark cannot read it{kind} ({condition(error)})", path=what) from None

    @abstractmethod
    def _load(self, spark: SparkSession) -> DataFrame:
        """Every change, as the session reads it, with `_seq`: the order of the log."""


class SparkFiles(SessionSource):
    """A changelog in files that any reader of the session can read."""

    def __init__(self, spec: SparkSpec, base: Path) -> None:
        super().__init__(spec)
        path = str(spec.path)
        whole = "://" in path or path.startswith("/")
        self._path = path if whole else f"{literally(str(base.resolve()))}/{Path(path)}"
        self._folder = None if literally(path) != path else path if whole else str(base.resolve() / path)
        """The path, unless it is a pattern."""
        self._places: dict[str, str] = {}
        """Where each file is, by its name in positions."""

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """Everything up to `until` that was not delivered, in one batch."""
        marks: list[tuple[dict[str, int], int]] = [] if position is None else json.loads(position)
        files = self._files()
        for known, _ in marks:
            self._require_unchanged(known, files)
        if len(files) > _MOST_FILES:
            raise SourceError("there are too many files; put several of them together", path=self._path)
        covered = [f"_time <= {upto}L AND _file IN ({_texts(known)})" for known, upto in marks]
        ahead = [[known, upto] for known, upto in marks if upto > until]
        changes = Changes(self._loader(sorted(files)), self._roles, where_of(covered, until), upto=until)
        yield Batch(NOTHING, until, json.dumps([*ahead, [files, until]]), changes)

    def _is_folder(self, spark: SparkSession) -> bool:
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(self._folder)
        system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return bool(system.getFileStatus(path).isDirectory())

    @staticmethod
    def _require_unchanged(known: Mapping[str, int], files: Mapping[str, int]) -> None:
        for name, size in known.items():
            if files.get(name) != size:
                what = "is gone" if name not in files else "has changed"
                raise SourceError(
                    f"the file was read before and {what}; add changes in new files, and put this one back "
                    "as it was",
                    path=name,
                )

    def _files(self) -> dict[str, int]:
        """The files that the path names, with their sizes."""
        names = self.static(self._spark).inputFiles()
        jvm: Any = self._spark._jvm
        hadoop = self._spark._jsparkSession.sessionState().newHadoopConf()
        found = {}
        for name in names:
            path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(name))
            label = _SLASHES.sub(r"\1:/", unquote(name))
            self._places[label] = literally(unquote(name))
            found[label] = int(path.getFileSystem(hadoop).getFileStatus(path).getLen())
        return found

    def _set_up(self, reader: Reader) -> Reader:
        reader = reader.format(self._spec.file_format)
        if self._spec.file_format in _TEXT:
            reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", _UNREAD)
            reader = reader.option("timeZone", "UTC")  # a stream has the time zone of the session, otherwise
        if self._spec.file_format == "csv":
            reader = reader.option("header", "true").option("nullValue", "").option("enforceSchema", "false")
        return reader.options(**self._spec.options)

    def _schema_of(self, spark: SparkSession) -> StructType:
        """The columns of the files; those of text have one more, for lines that cannot be read."""
        from pyspark.sql.types import StructType  # noqa: PLC0415  (loaded when first used)

        schema = StructType([one for one in self._whole(spark).schema.fields if one.name != _UNREAD])
        return schema.add(_UNREAD, "string") if self._spec.file_format in _TEXT else schema

    def static(self, spark: SparkSession) -> DataFrame:
        """Every file, with the columns of the table."""
        return self._whole(spark).drop(_UNREAD)

    def _whole(self, spark: SparkSession) -> DataFrame:
        """Every file.  Names of folders below the path are columns (`region=north`), if it is no pattern."""
        found = self._set_up(spark.read).load(self._path)
        names = found.inputFiles()
        if self._folder is not None or not any("=" in name for name in names):
            return found
        return self._set_up(spark.read).load([literally(unquote(name)) for name in names])

    def stream(self, spark: SparkSession) -> DataFrame:
        """The files and those that are added, as a stream."""
        return self._set_up(spark.readStream).schema(self._schema_of(spark)).load(self._path)

    def _load(self, spark: SparkSession) -> DataFrame:
        return self.static(spark)

    def _loader(self, files: list[str]) -> Load:
        """Reads the files; `_seq`: file and row, or where the file is text, file, block and row."""
        kind = self._spec.file_format

        def load(spark: SparkSession) -> DataFrame:
            places = [self._places[name] for name in files]
            reader = self._set_up(spark.read).schema(self._schema_of(spark))
            if self._folder is not None and any("=" in name for name in files) and self._is_folder(spark):
                reader = reader.option("basePath", self._folder)
            frame = reader.load(places)
            names = ", ".join(f"{_text(name)}, {n}L" for n, name in enumerate(sorted(files)))
            number = f"element_at(map({names}), _file)" if len(files) > 1 else "0L"
            row = (
                "_metadata.row_index"
                if kind == "parquet"
                else "shiftleft(_metadata.file_block_start DIV 4194304, 30) + "
                "(monotonically_increasing_id() & 1073741823L)"
            )
            named = frame.selectExpr("*", f"{_FILE} AS _file", f"{row} AS _row")
            return readable(named, f"shiftleft({number}, 48) + _row").drop("_row")

        return load


class SparkTable(SessionSource):
    """A table or view of the session, whose rows have a number that only grows."""

    def read(self, position: str | None, until: int) -> Iterator[Batch]:
        """The rows up to `until` that were not delivered, in one batch."""
        order = quote(str(self._spec.order))
        marks: list[list[int | None]] = [] if position is None else json.loads(position)
        last = self._last()
        covered = [f"_time <= {upto}L AND {order} <= {seen}L" for seen, upto in marks if seen is not None]
        ahead = [mark for mark in marks if (mark[1] or 0) > until]
        where = where_of(covered, until) + f" AND {order} <= {last or 0}L"
        changes = Changes(self._load, self._roles, where, upto=until)
        done = json.dumps([*ahead, [last, until]])
        yield Batch(NOTHING, until, done, None if last is None else changes)

    def _last(self) -> int | None:
        with settled(self._spark):
            ((found,),) = self._spark.sql(
                f"SELECT max({numbered(str(self._spec.order))}) FROM {qualified(self._spec.table)}"
            ).collect()
        return None if found is None else int(found)

    def _schema(self) -> dict[str, str]:
        found = super()._schema()
        kind = found.get(str(self._spec.order), INTEGERS[0])
        if kind not in INTEGERS and not kind.endswith(",0)"):  # a decimal without decimal places
            raise SourceError(
                f"column {self._spec.order!r} (order) is of type {kind}. Name a column of integers that grow"
            )
        return found

    def _load(self, spark: SparkSession) -> DataFrame:
        frame = spark.table(qualified(self._spec.table))
        if self._spec.order not in frame.columns:  # `columns` says so
            return frame
        return frame.selectExpr("*", f"{numbered(str(self._spec.order))} AS _seq")


def readable(frame: DataFrame, number: str) -> DataFrame:
    """The rows with their numbers as `_seq`; a line of text that cannot be read is refused."""
    if _UNREAD not in frame.columns:
        return frame.selectExpr("*", f"{number} AS _seq")
    refused = f"raise_error('{REFUSED}a line of a file does not have the form of the others')"
    checked = f"CASE WHEN {_UNREAD} IS NULL THEN {number} ELSE {refused} END AS _seq"
    return frame.selectExpr("*", checked).drop(_UNREAD)


def numbered(order: str) -> str:
    """SQL: the number of a change; a row without one is refused."""
    refused = f"raise_error('{REFUSED}column {plain(order)} (order) is empty or contains no integer')"
    return f"coalesce(try_cast({quote(order)} AS BIGINT), {refused})"


def qualified(name: str) -> str:
    """A name of a table of the session; each part is quoted."""
    return ".".join(quote(part) for part in name.split("."))


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _texts(values: Mapping[str, int]) -> str:
    return ", ".join(map(_text, values))


def _embedded(kind: str) -> str:
    if kind.startswith("decimal("):
        digits, places = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return f"DECIMAL({int(digits)}, {int(places)})"
    return _TYPES.get(kind, "BLOB")
