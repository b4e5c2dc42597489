"""Descriptions of tables: CSV on the Web, a Frictionless Data Package, and SDMX-CSV."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Final

from tidegauge.model.quantity import rfc3339
from tidegauge.publish.metadata.linked import digest
from tidegauge.publish.public.reader import as_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.publish.metadata.dataset import Column, Dataset, Series
    from tidegauge.publish.public.values import PublicReading, ReleaseInfo

_CSVW: Final = {
    "string": "string",
    "time": "dateTimeStamp",
    "integer": "integer",
    "boolean": "boolean",
    "number": "double",
}


def csvw(data: Dataset) -> dict[str, Json]:
    """A CSVW table group: one table for each release."""
    return {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "dc:title": data.about.title,
        "dc:description": data.description,
        **({"dc:license": {"@id": data.license}} if data.license else {}),
        "tables": [
            {
                "url": _csv(one),
                "dc:title": one.info.name,
                "dc:description": one.what,
                "tableSchema": {
                    "columns": [_csvw_column(column) for column in one.columns],
                    "primaryKey": list(one.key),
                },
            }
            for one in data.series
        ],
    }


def _csvw_column(column: Column) -> dict[str, Json]:
    kind: Json = _CSVW[column.kind]
    if column.kind == "boolean":
        kind = {"base": "boolean", "format": "True|False"}
    return {
        "name": re.sub(r"[^A-Za-z0-9_]", "_", column.name).lstrip("_") or f"c{digest(column.name)}",
        "titles": column.name,
        "dc:description": column.description,
        "datatype": kind,
        "required": column.required,
    }


def _csv(one: Series) -> str:
    return next(file.url for file in one.files if file.form == "csv")


_FRICTIONLESS: Final[dict[str, JsonObject]] = {
    "string": {"type": "string"},
    "time": {"type": "datetime", "format": "any"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean", "trueValues": ["True"], "falseValues": ["False"]},
    "number": {"type": "number"},
}


def frictionless(data: Dataset) -> dict[str, Json]:
    """A Frictionless Data Package: one tabular resource for each release."""
    return {
        "profile": "data-package",
        "name": f"tidegauge-{digest(data.address)}",
        "id": data.address,
        "title": data.about.title,
        "description": data.description,
        "version": "1.0.0",
        "created": data.modified,
        "keywords": list(data.keywords),
        **({"homepage": data.about.url} if data.about.url else {}),
        **({"licenses": [_license(data)]} if data.license else {}),
        **(
            {"contributors": [{"title": data.about.creator, "role": "publisher"}]}
            if data.about.creator
            else {}
        ),
        "resources": [
            {
                "profile": "tabular-data-resource",
                "name": _resource(one.info.name),
                "title": one.info.name,
                "description": one.what,
                "path": _csv(one),
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "schema": {
                    "fields": [
                        {
                            "name": column.name,
                            "description": column.description,
                            **_FRICTIONLESS[column.kind],
                            **({"constraints": {"required": True}} if column.required else {}),
                        }
                        for column in one.columns
                    ],
                    "primaryKey": list(one.key),
                    "missingValues": [""],
                },
            }
            for one in data.series
        ],
    }


def _license(data: Dataset) -> dict[str, str]:
    assert data.license is not None
    named = data.about.license
    return {"path": data.license} | ({} if "://" in named else {"name": named})


def _resource(name: str) -> str:
    plain = re.sub(r"[^a-z0-9._-]", "-", name.lower())
    return plain if plain == name else f"{plain}-{digest(name)[:6]}"


# -- SDMX ----------------------------------------------------------------------------------------------------

AGENCY: Final = "TIDEGAUGE"


def sdmx_csv(info: ReleaseInfo, readings: Iterable[PublicReading]) -> bytes:
    """The readings of a release as SDMX-CSV 2.0: one dimension a group, the time, the value and its error."""
    dimensions = [sdmx_name(name) for name, _ in info.groups]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    fixed = ["TIME_PERIOD", "OBS_VALUE", "STDERR", "NOISE_INTERVAL_LOW", "NOISE_INTERVAL_HIGH", "OBS_STATUS"]
    writer.writerow(["STRUCTURE", "STRUCTURE_ID", "ACTION", *dimensions, *fixed])
    flow = f"{AGENCY}:{sdmx_name(info.name)}(1.0.0)"
    for one in readings:
        group = [as_text(value) for value in (one.group or {}).values()]
        status = "M" if one.value is None else "A"
        time = rfc3339(one.time).removesuffix("Z")  # SDMX times have no zone; these are UTC
        numbers = ["" if x is None else x for x in (one.value, one.stderr, one.low, one.high)]
        writer.writerow(["dataflow", flow, "I", *group, time, *numbers, status])
    return buffer.getvalue().encode()


def sdmx_name(name: str) -> str:
    """An identifier as SDMX allows: letters, digits, underscore; not one that the format has itself."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name).upper()
    if plain != name.upper() or not plain[:1].isalpha():
        plain = f"X_{plain}_{digest(name)[:6].upper()}"
    taken = {"STRUCTURE", "STRUCTURE_ID", "ACTION", "TIME_PERIOD", "OBS_VALUE", "OBS_STATUS", "STDERR"}
    return f"G_{plain}" if plain in taken or plain.startswith("NOISE_INTERVAL") else plain
