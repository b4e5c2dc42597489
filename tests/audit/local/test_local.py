"""The checks of local surveys pass on correct code, and fail on wrong code.  alpha = 1e-9."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegauge.audit.findings import Discrepancy
from tidegauge.audit.local import local, surveys
from tidegauge.audit.local.local import check_local
from tidegauge.audit.local.surveys import check_estimates
from tidegauge.local import decode
from tidegauge.local.decode import Histogram


def test_local_reports_follow_their_law_and_a_wrong_reporter_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "node", lambda: None)
    results, notes = check_local(1e-9, lambda done: None, only=["snapshots"])
    assert [one.found for one in results] == [[]]
    assert len(notes) == 1
    sampled = local._sampled
    monkeypatch.setattr(local, "_sampled", lambda survey, life, people: sampled(survey, (None, None), people))
    results, _ = check_local(1e-9, lambda done: None, only=["snapshots"])
    assert "do not follow" in results[0].found[0]


def test_estimates_of_surveys_are_as_far_off_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    check_estimates()
    histogram = decode.histogram

    def bolder(*arguments: object) -> Histogram:
        found = histogram(*arguments)  # type: ignore[arg-type]
        return replace(found, covariance=found.covariance / 2)

    monkeypatch.setattr(surveys, "histogram", bolder)
    with pytest.raises(Discrepancy, match="standard errors"):
        check_estimates()
