"""docs/reference/http.md: every address that the web process answers."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from tidegauge.model.json import as_object, as_text, objects, tables
from tidegauge.serve.app import create_app
from tidegauge.serve.openapi import document
from tidegauge.serve.operator import operator_app
from tools.docs.reference.meanings import Meanings, table

if TYPE_CHECKING:
    from tidegauge.model.json import JsonObject
    from tidegauge.publish.public.reader import PublicFile
    from tidegauge.serve.operator import Watch


def described() -> dict[str, JsonObject]:
    """The paths of the OpenAPI document, for a release with one group."""
    release = SimpleNamespace(name="NAME", groups=(("COLUMN", ()),))
    about = SimpleNamespace(title="", description="-")
    public = SimpleNamespace(about=about, releases=[release], guarantee=SimpleNamespace(sentence=""))
    return tables(document(cast("PublicFile", public))["paths"])


def addresses() -> list[str]:
    """Every address, in the order in which the process tries them."""
    web = cast("Any", create_app(Path("no-such-file.db")))._app.routes
    operator = operator_app(cast("Watch", None), "x" * 16).routes
    found = [re.sub(r":path\}", "}", cast("Any", route).path) for route in [*web, *operator]]
    return [one for one in found if one != "/{path}"]  # what answers 404


def page() -> str:
    """The whole page."""
    known, meanings = described(), Meanings("http")
    rows: list[tuple[str, ...]] = []
    for address in sorted(set(addresses())):
        if address in known and address not in meanings:
            get = as_object(known[address]["get"])
            named = [f"`{one['name']}`" for one in objects(get.get("parameters", ())) if one["in"] == "query"]
            rows.append((f"`{address}`", as_text(get["summary"]), ", ".join(named)))
        else:
            rows.append((f"`{address}`", meanings.take(address), ""))
    meanings.close()
    return (
        "# HTTP\n\nThis page is written from the code by `python -m tools.docs.reference`. [Web "
        "server](../serve.md) says how\nto start the process, and `/api/v1/openapi.json` has the same as an "
        "OpenAPI document. All addresses\nanswer GET.\n\n" + table(("address", "answer", "parameters"), rows)
    )
