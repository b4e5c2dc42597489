"""Shared test vectors: the reports that every implementation of the reporter must send.

`python tests/local/test_vectors.py` writes them again.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from tidegauge.local import Reporter, Survey
from tidegauge.local.reporter import acceptance
from tidegauge.local.survey import PROTOCOLS, Options

VECTORS = Path(__file__).parent / "vectors" / "reports.json"
MAPS: dict[tuple[str, int], Options] = {
    ("tilted", 3): {"map": "coordinate"},
    ("tilted", 9): {"map": "sign"},
    ("tilted", 2): {"map": "pair"},
}
LIVES: list[list[str | None]] = [
    ["a", "a", "b", "b", "c", "c", "a", None],
    [None, None, "c", "c", "c", "b", "b", "b"],
    ["a", None, "a", None, "a", None, "a", None],
]


def written() -> dict[str, Any]:
    """The vectors as this implementation makes them."""
    cases = []
    for protocol in PROTOCOLS:
        for answers, epsilon in ((3, "2"), (9, "1/2"), (2, "1000000000")):
            survey = Survey(
                answers=[*"abcdefghi"[:answers]],
                windows=8,
                changes=3,
                epsilon=epsilon,
                protocol=protocol,
                options=MAPS.get((protocol, answers), {}),
                seed="vectors",
                reveals_change_times=protocol == "memoized",
            )
            for number, life in enumerate(LIVES * 4):
                windows = [0, 1, 3, 6, 7] if number % 4 == 3 else range(number % 4 == 2, 8)
                how: dict[str, Any] = {
                    "first_window": 1 if number % 4 == 2 else 0,
                    "state_is_current": number >= 6,
                }
                secret = bytes([number, answers, *range(30)])
                asked = [
                    (window, life[window] if life[window] in survey.answers else None) for window in windows
                ]
                reporter = Reporter(survey, {}, secret=secret, **how)
                reports = [reporter.report(window, answer).hex() for window, answer in asked]
                cases.append(
                    {
                        "survey": survey.to_json(),
                        "secret": secret.hex(),
                        **how,
                        "asked": asked,
                        "reports": reports,
                    }
                )
    exponents = ["1/1000", "1/3", "1", "2", "7/2", "44", "45", "1000000000"]
    return {"acceptance": {text: str(acceptance(Fraction(text))) for text in exponents}, "cases": cases}


def test_the_reporter_sends_what_the_vectors_say() -> None:
    vectors = json.loads(VECTORS.read_text())
    for case in vectors["cases"]:
        how = {name: case[name] for name in ("first_window", "state_is_current")}
        reporter = Reporter(case["survey"], {}, secret=bytes.fromhex(case["secret"]), **how)
        assert [reporter.report(window, answer).hex() for window, answer in case["asked"]] == case["reports"]
    for text, weight in vectors["acceptance"].items():
        assert acceptance(Fraction(text)) == int(weight)


def test_the_vectors_cover_every_protocol_and_map() -> None:
    surveys = [json.loads(case["survey"]) for case in json.loads(VECTORS.read_text())["cases"]]
    assert {survey["protocol"] for survey in surveys} == set(PROTOCOLS)
    groups = [group for survey in surveys for group in survey["groups"]]
    assert {group["map"] for group in groups if "map" in group} == {"coordinate", "sign", "pair"}
    assert {group["oracle"] for group in groups if "oracle" in group} == {"grr", "oue"}


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(written(), indent=1) + "\n")
