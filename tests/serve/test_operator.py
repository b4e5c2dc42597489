"""The operator's routes: off without a token, closed without the right one."""

from __future__ import annotations

import hmac
import re

import httpx
import pytest

from tests.serve.served import serving
from tidegauge.errors import SpecError
from tidegauge.model.status import ReleaseStatus, Status
from tidegauge.serve.operator import Exit, Watch, open_metrics, operator_app

TOKEN = "sesame-open-4711-sesame"
STATUS = Status(
    processed_to=1767225600_000000,
    releases={
        'a"b\\': ReleaseStatus(readings=3, readings_total=None, next=1767225600_000000),
        "c": ReleaseStatus(readings=0, readings_total=0, next=None),
    },
    publishers={"page": 5},
    operator_only={"dropped": 17},
)


def metrics() -> str:
    return open_metrics(STATUS, now=1767225600_000000 + 90_000_000, last=Exit(1767225000.5, 2))


def test_only_the_right_token_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr("tidegauge.serve.operator.hmac.compare_digest", compare)
    with serving(operator_app(Watch(lambda: STATUS, metrics), TOKEN)) as client:
        wrong = ["", TOKEN, f"bearer {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer"]
        for at in ("/operator/status", "/operator/metrics"):
            for given in wrong:
                answer = client.get(at, headers={"authorization": given})
                assert answer.status_code == 401
                assert "17" not in answer.text
            assert client.get(at, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
            odd = client.get(at, headers=httpx.Headers([(b"authorization", b"Bearer \xff\xfe")]))
            assert odd.status_code == 401
        assert client.get("/operator/other").status_code == 404
        assert client.post("/operator/status").status_code == 405
    assert len(compared) >= 2 * len(wrong)


@pytest.mark.parametrize("token", ["", "short", "with space and more than sixteen", "ü" * 20])
def test_without_a_good_token_there_are_no_routes(token: str) -> None:
    with pytest.raises(SpecError, match="at least 16 characters"):
        operator_app(Watch(Status, str), token)


def test_an_error_shows_nothing() -> None:
    def broken() -> Status:
        raise ValueError("secret 4711")

    with serving(operator_app(Watch(broken, metrics), TOKEN)) as client:
        answer = client.get("/operator/status", headers={"authorization": f"Bearer {TOKEN}"})
        assert (answer.status_code, answer.json()) == (500, {"detail": "internal error"})


def test_metrics_are_open_metrics() -> None:
    text = metrics()
    assert text.endswith("# EOF\n")
    assert 'tidegauge_lag_seconds{release="a\\"b\\\\"} 90.000000' in text
    assert 'tidegauge_lag_seconds{release="c"} 0.000000' in text
    assert 'tidegauge_outbox_readings{publisher="page"} 5' in text
    assert "tidegauge_last_exit_code 2\n" in text
    assert "tidegauge_last_exit_timestamp_seconds 1767225000.500000\n" in text
    assert "last_exit_code " not in re.sub("#.*", "", open_metrics(STATUS, now=0))
    assert 'tidegauge_operator_only{count="dropped"} 17' in text
    typed = set(re.findall(r"# TYPE (\S+)", text))
    for line in text.splitlines():
        if not line.startswith("#"):
            name = re.match(r"[a-z_]+", line)
            assert name is not None
            assert name.group().removesuffix("_total") in typed or name.group() in typed
