"""Whatever the OpenAPI document allows, or forbids, is answered: never with 5xx."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from tests.publish.ward import Ward
from tests.serve.served import serving
from tidegauge.serve.app import create_app

CALM = settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def document(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    return found


@pytest.mark.slow
def test_no_request_fails_on_our_side(tmp_path: Path) -> None:
    """Each operation with valid and with invalid parameters; answers have the form that is documented."""
    Ward(tmp_path, {"page": {"kind": "public"}}).run(20)
    with serving(create_app(tmp_path / "public.db")) as client:
        schema = schemathesis.openapi.from_dict(document(client))
        asked = 0
        for result in schema.get_all_operations():
            operation: Any = result.ok()  # type: ignore[union-attr]
            valid, invalid = (
                operation.as_strategy(generation_mode=mode)
                for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
            )
            strategies = [valid, *([invalid] if operation.query or operation.path_parameters else [])]

            @given(case=st.one_of(strategies))
            @CALM
            def ask(case: Any) -> None:
                nonlocal asked
                response = case.call(base_url=str(client.base_url))
                asked += 1
                case.validate_response(
                    response,
                    checks=[not_a_server_error, status_code_conformance, response_schema_conformance],
                )

            ask()
        assert asked > 150


PATHS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=30)


def test_no_address_fails_on_our_side(tmp_path: Path) -> None:
    Ward(tmp_path, {"page": {"kind": "public"}}).run(5)
    with serving(create_app(tmp_path / "public.db")) as client:

        @given(path=PATHS, query=PATHS, method=st.sampled_from(["GET", "HEAD", "POST", "OPTIONS", "PUT"]))
        @settings(max_examples=150, suppress_health_check=list(HealthCheck))
        def ask(path: str, query: str, method: str) -> None:
            start = "/api/v1/releases/by_ward/readings"
            for at in (path, f"{start}{path}", f"{start}?{query}", f"{start}?group.ward={query}&from={path}"):
                try:
                    answer = client.request(method, "/" + at.lstrip("/"))
                except httpx.InvalidURL:
                    continue
                assert answer.status_code < 500, at
                assert not re.search(r"Traceback|File \"", answer.text)
                assert str(tmp_path) not in answer.text

        ask()


@pytest.mark.parametrize("at", ["openapi.json"])
def test_the_document_names_the_releases_and_groups(tmp_path: Path, at: str) -> None:
    Ward(tmp_path, {"page": {"kind": "public"}}).run(2)
    with serving(create_app(tmp_path / "public.db")) as client:
        found = client.get(f"/api/v1/{at}").json()
        readings = found["paths"]["/api/v1/releases/{name}/readings"]["get"]
        names = [one["name"] for one in readings["parameters"]]
        assert names == ["name", "from", "to", "group.ward", "page", "page_size"]
        assert readings["parameters"][0]["schema"]["enum"] == ["by_ward", "week", "weekly"]
