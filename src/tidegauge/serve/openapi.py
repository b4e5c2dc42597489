"""The OpenAPI document of the API.  Names of releases and groups in it are those of the public file."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from tidegauge.model.reading import COVERS
from tidegauge.serve.asked import LARGEST_PAGE, PAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.json import Json, JsonObject
    from tidegauge.publish.public.reader import PublicFile

API: Final = "/api/v1"
_NUMBER: Final[JsonObject] = {"type": ["number", "null"]}
_READING: Final[JsonObject] = {
    "type": "object",
    "required": ["release", "time", "group", "value", "stderr", "low", "high"],
    "properties": {
        "release": {"type": "string"},
        "time": {"type": "string", "format": "date-time"},
        "group": {"type": ["object", "null"]},
        "value": {**_NUMBER, "description": "null where noise hides the value"},
        "stderr": {**_NUMBER, "description": "standard error of the noise alone"},
        "low": {"type": "number", "description": f"lower end of the 95 % noise interval. {COVERS}"},
        "high": {"type": "number", "description": f"upper end of the 95 % noise interval. {COVERS}"},
    },
}
_RELEASE: Final[JsonObject] = {
    "type": "object",
    "required": ["name", "sql", "what", "groups", "every", "readings"],
    "properties": {"name": {"type": "string"}, "groups": {"type": "object"}},
}


def document(public: PublicFile) -> dict[str, Json]:
    """The OpenAPI document for one public file."""
    about = public.about
    return {
        "openapi": "3.1.0",
        "info": {
            "title": about.title,
            "description": about.description or public.guarantee.sentence,
            "version": version("tidegauge"),
        },
        "paths": _paths(public),
        "components": {
            "schemas": {
                "Reading": _READING,
                "Release": _RELEASE,
                "Error": {
                    "type": "object",
                    "required": ["detail"],
                    "properties": {"detail": {"type": "string"}},
                },
            }
        },
    }


def _paths(public: PublicFile) -> dict[str, Json]:
    names = [one.name for one in public.releases]
    groups = sorted({name for one in public.releases for name, _ in one.groups})
    name: JsonObject = {
        "name": "name",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "enum": names},
        "description": "The name of a release.",
    }
    page = [
        _query("page", {"type": "integer", "minimum": 1, "maximum": 10**9, "default": 1}),
        _query("page_size", {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE}),
    ]
    time = {"type": "string", "format": "date-time"}
    chosen: list[JsonObject] = [
        name,
        _query("from", time, "The first time."),
        _query("to", time, "The last time; it is included."),
        *(
            _query(
                f"group.{one}",
                {"type": "array", "items": {"type": "string"}},
                "Only these values of the group; not every release has every group.",
            )
            for one in groups
        ),
        *page,
    ]
    readings = _page({"$ref": "#/components/schemas/Reading"})
    one = f"{API}/releases/{{name}}"
    anything = {"type": "object"}
    paths: dict[str, Json] = {
        API: _get("Where things are.", anything),
        f"{API}/releases": _get("All releases.", _page({"$ref": "#/components/schemas/Release"}), page),
        one: _get("One release and its latest readings.", {"$ref": "#/components/schemas/Release"}, [name]),
        f"{one}/readings": _get("Readings by time and group.", readings, chosen),
        f"{one}/readings.json": _get("The same.", readings, chosen),
        f"{one}/denoised": _get(
            "A model's estimate beside each reading, where it is published, with a model interval.",
            readings,
            chosen,
        ),
        f"{one}/latest": _get("The readings at the last time.", anything, [name]),
        f"{API}/plan": _get("The plan, and its guarantee in words and numbers.", anything),
        f"{API}/ledger": _get("The ledger.", _page(anything), page),
        f"{API}/seals": _get("The seal of every tick.", _page(anything), page),
        f"{API}/health": _get("Whether the process is alive.", anything),
        f"{API}/ready": _get("Whether there is something to serve.", anything),
        f"{API}/openapi.json": _get("This document.", anything),
    }
    for form, media_type in (
        ("csv", "text/csv"),
        ("parquet", "application/vnd.apache.parquet"),
        ("arrow", "application/vnd.apache.arrow.stream"),
    ):
        said = f"Readings as {form}: all of them unless a page is asked for."
        paths[f"{one}/readings.{form}"] = _get(said, None, chosen, media_type=media_type)
    return paths


def _query(name: str, schema: JsonObject, description: str = "") -> dict[str, Json]:
    said = {"description": description} if description else {}
    return {"name": name, "in": "query", "required": False, "schema": schema, **said}


def _page(items: JsonObject) -> dict[str, Json]:
    link = {"type": ["string", "null"]}
    return {
        "type": "object",
        "required": ["count", "next", "previous", "results"],
        "properties": {
            "count": {"type": "integer"},
            "next": link,
            "previous": link,
            "results": {"type": "array", "items": items},
        },
    }


def _get(
    summary: str,
    schema: JsonObject | None,
    parameters: Sequence[JsonObject] = (),
    *,
    media_type: str = "application/json",
) -> dict[str, Json]:
    content = {media_type: {"schema": schema} if schema else {}}
    error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
    return {
        "get": {
            "summary": summary,
            "parameters": list(parameters),
            "responses": {
                "200": {"description": "The answer.", "content": content},
                "304": {"description": "Nothing was published since the ETag that was sent."},
                "404": {"description": "There is no such release.", **error},
                "405": {"description": "Only GET and HEAD.", **error},
                "413": {"description": "Too many readings at once.", **error},
                "422": {"description": "A parameter cannot be understood.", **error},
                "503": {"description": "There is nothing to serve yet.", **error},
            },
        }
    }
