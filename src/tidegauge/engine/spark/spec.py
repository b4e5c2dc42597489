"""The [source] table of kind spark: a changelog in files or a table that the Spark session reads."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, model_validator

from tidegauge.model.declared import PRIMARY_KEY, Name, SourceSpec

FORMATS: Final = ("parquet", "csv", "json", "orc", "delta", "iceberg", "avro")


class SparkSpec(SourceSpec):
    """A changelog in a Spark session: `path` for files, else the table `table` of the session."""

    REACH: ClassVar[frozenset[str]] = frozenset({"options", "trigger"})

    kind: Literal["spark"]
    table: Name
    path: Name | None = None
    format: Name | None = None
    options: dict[str, str] = Field(default_factory=dict)
    time: Name
    key: Annotated[Name, PRIMARY_KEY]
    before: Name | None = None
    after: str | None = None
    op: Name | None = None
    order: Name | None = None
    types: dict[str, str] = Field(default_factory=dict)
    time_unit: Literal["seconds", "milliseconds", "microseconds"] | None = None
    stream: bool = False
    trigger: Name | None = None

    @model_validator(mode="after")
    def _one_place(self) -> SparkSpec:
        if self.path is None and (self.format is not None or self.options):
            raise ValueError("format: goes with 'path'; a table of the session has a format already")
        if self.order is None and (self.stream or self.path is None):
            raise ValueError(
                "order: name the column that numbers the changes (a log position or version); "
                + ("changes of a stream are ordered by it" if self.stream else "new changes are found by it")
            )
        if self.path is not None and self.order is not None and not self.stream:
            raise ValueError("order: belongs to a table or stream; files are read in the order of their rows")
        if self.unit is not None and self.unit == self.key:
            raise ValueError("unit: leave it out if it is the key")
        if self.trigger is not None and not self.stream:
            raise ValueError("trigger: goes with stream = true")
        return self

    @property
    def keeps(self) -> str | None:
        """What a stream keeps; the engine says the same of its state."""
        return "micro-batches of the stream lie in files" if self.stream else None

    @property
    def file_format(self) -> str:
        """The format of the files: the declared one, or that of their ending."""
        if self.format is not None:
            return self.format
        name = (self.path or "").removesuffix(".gz").rstrip("/")
        ending = name.rpartition(".")[2]
        return {"jsonl": "json", "ndjson": "json"}.get(ending, ending if ending in FORMATS else "parquet")
