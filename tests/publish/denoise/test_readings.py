"""`readings --denoised`, from a gauge to every format."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow.parquet as pq
import pytest

from tidegauge.cli.carry_out import main
from tidegauge.mechanism.noise.samplers import SimulationSampler
from tidegauge.model.reading import TOO_SMALL, Reading
from tidegauge.publish.registry import FORMATS, FilePublisher
from tidegauge.publish.table import as_text
from tidegauge.publish.verify import compare
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Clock, Script

DAYS = 40
EVERY: Final = {"start": "1970-01-01", "every": "1 microsecond", "for": f"{DAYS - 1} microseconds"}
RELEASES: Final[dict[str, dict[str, Any]]] = {
    "wards": {"sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward", "groups": {"ward": ["a", "b"]}, **EVERY},
    "week": {"of": "wards", "window": "7 microseconds"},
    "ages": {"sql": "SELECT SUM(age) FROM t", "bounds": {"age": [0, 100]}, **EVERY},
    "mean": {"sql": "SELECT AVG(age) FROM t", "bounds": {"age": [0, 100]}, **EVERY},
    "came": {
        "sql": "SELECT COUNT(*) FROM changes(t) WHERE before.ward IS NULL",
        "window": "1 microsecond",
        **EVERY,
    },
    "sliding": {"sql": "SELECT COUNT(*) FROM t", "window": "5 microseconds", **EVERY},
}


def gauge(folder: Path, budget: dict[str, Any], releases: dict[str, dict[str, Any]] | None = None) -> Gauge:
    """People of one age who come and go in two wards."""
    life: list[Any] = []
    for n in range(1500):
        came = n % 30
        life += [(came, f"p{n:04}", {"ward": "ab"[n % 2], "age": 40}), (came + 12, f"p{n:04}", None)]
    life.sort(key=lambda change: change[:2])
    return Gauge(
        source=Script({"ward": "VARCHAR", "age": "BIGINT"}, life),
        constraint={"at_most": 2},
        budget=budget,
        releases=releases or RELEASES,
        store=folder / "store.db",
        now=Clock(1000),
        sampler=SimulationSampler(3),
    )


@pytest.mark.parametrize("budget", [{"rho": "0.5"}, {"epsilon": "3"}], ids=["Gaussian", "Laplace"])
def test_every_kind_of_release_has_a_model_beside_its_own_value(
    tmp_path: Path, budget: dict[str, Any]
) -> None:
    one = gauge(tmp_path, budget)
    list(one.run())
    before = one.published()
    wanted: dict[Literal["past", "all"], str] = {"all": "all readings", "past": "past readings"}
    for used, uses in wanted.items():
        found = one.published(denoised=used)
        assert [r.value for r in found] == [r.value for r in before]
        assert {r.release for r in found} == set(RELEASES)
        for reading in found:
            assert reading.model is not None
            assert reading.model.uses == uses
            assert reading.model.low <= reading.model.high
            assert reading.model.value is None or np.isfinite(reading.model.value)
        counts = [r for r in found if r.release == "wards" and r.model is not None]
        narrower = [(r.model.stderr or 0) < (r.stderr or 0) for r in counts if r.model is not None]
        assert np.mean(narrower) > 0.5
    assert all(r.model is None for r in before)


def test_past_only_estimates_do_not_change_when_time_goes_on(tmp_path: Path) -> None:
    one = gauge(tmp_path, {"rho": "0.05"}, {"wards": RELEASES["wards"], "week": RELEASES["week"]})
    list(one.run(until="1970-01-01T00:00:00.000020Z"))
    kinds: tuple[Literal["past", "all"], ...] = ("past", "all")
    early = {used: one.published(denoised=used) for used in kinds}
    list(one.run())
    for used in kinds:
        late = {(r.release, r.time, str(r.group)): r.model for r in one.published(denoised=used)}
        same = [
            r.model is not None
            and (then := late[r.release, r.time, str(r.group)]) is not None
            and r.model.value == pytest.approx(then.value, abs=1e-9)
            for r in early[used]
        ]
        assert len(same) > 20
        assert all(same) == (used == "past")


def test_without_noise_the_model_is_the_reading(tmp_path: Path) -> None:
    one = gauge(tmp_path, {"epsilon": "1e9"}, {"wards": RELEASES["wards"]})
    list(one.run())
    for reading in one.published("wards", denoised="all"):
        assert reading.model is not None
        assert reading.model.value == pytest.approx(reading.value, abs=1e-3)


def test_the_columns_are_the_same_in_every_format(tmp_path: Path) -> None:
    one = gauge(tmp_path, {"rho": "0.5"}, {"wards": RELEASES["wards"]})
    list(one.run())
    readings = one.published("wards", denoised="all")
    for name in ("csv", "json", "parquet"):
        FilePublisher(FORMATS.named(name), tmp_path / name).deliver(readings)
        assert compare(tmp_path / name, one.published()) == len(readings)
    wanted = ["model_value", "model_stderr", "model_low", "model_high", "model_uses"]
    header = next(csv.reader(io.StringIO((tmp_path / "csv").read_text())))
    assert header == ["release", "time", "ward", "value", "stderr", "low", "high", *wanted]
    assert pq.read_table(tmp_path / "parquet").column_names == header
    first = json.loads((tmp_path / "json").read_text())[0]
    assert [name for name in first if name.startswith("model_")] == wanted
    assert first["model_uses"] == "all readings"
    assert TOO_SMALL not in (tmp_path / "csv").read_text() + (tmp_path / "json").read_text()
    text = as_text(readings)
    assert "MODEL value" in text
    assert "Its 95 % interval holds if the model holds" in " ".join(text.split())


def test_people_are_shown_when_noise_hides_a_count() -> None:
    from datetime import UTC, datetime

    def shown(value: float, half: float, *, count: bool = True, nothing: bool = False) -> str:
        at = datetime(2026, 1, 31, tzinfo=UTC)
        reading = Reading("r", at, None, value, half / 1.96, lambda _: (value - half, value + half))
        return as_text([replace(reading, never_negative=count, zero_is_nothing=nothing)])

    assert TOO_SMALL in shown(21, 49)
    assert TOO_SMALL not in shown(121, 49)
    assert TOO_SMALL in shown(-60, 49)
    assert TOO_SMALL not in shown(21, 49, count=False)  # a mean
    assert TOO_SMALL in shown(-21, 49, count=False, nothing=True)  # a change
    assert TOO_SMALL not in shown(-60, 49, count=False, nothing=True)
    assert TOO_SMALL not in shown(0, 0)


def test_past_only_alone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["tidegauge", "readings", "--past-only"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert "--past-only" in capsys.readouterr().err
