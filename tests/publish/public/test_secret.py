"""Nothing of one unit is in the public file, except through noise."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.publish.ward import RELEASES, START, Ward, people
from tidegauge.mechanism.encode import measure
from tidegauge.model.quantity import DAY
from tidegauge.publish.public.reader import PublicFile
from tidegauge.run.gauge import Gauge
from tidegauge.testing import Script

PUBLIC = {"page": {"kind": "public"}}
PLANTED = "Zaphod-4711-Beeblebrox"


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise in every world, and exact sums that never reach a measurement."""

    def measure_nothing(plan: Any, exact: Any, **more: Any) -> Any:
        del exact
        return measure(plan, {}, **more)

    monkeypatch.setattr("tidegauge.run.tick.measure", measure_nothing)


def published(folder: Path, changes: list[tuple[int, str, dict[str, str] | None]]) -> bytes:
    folder.mkdir()
    ward = Ward(folder, PUBLIC, changes=changes)
    ward.more["releases"] = {name: RELEASES[name] for name in ("by_ward", "weekly")}
    for day in (0, 1, 5, 6, 30):
        ward.run(day)
    return (folder / "public.db").read_bytes()


def test_the_file_is_the_same_without_one_unit(tmp_path: Path, frozen: None) -> None:
    """Byte for byte, where measurements are the same;
    a unit with many changes and its absence, or no data."""
    whole = people()
    busy = [(START + n * DAY // 2 + 1, "p0", {"ward": "ab"[n % 2]}) for n in range(50)]
    everyone = sorted([*whole, *busy], key=lambda change: change[0])
    others = [change for change in everyone if change[1] != "p0"]
    first = published(tmp_path / "with", everyone)
    assert first == published(tmp_path / "without", others)
    assert first == published(tmp_path / "nothing", [(START, "nobody", None)])


def test_the_twin_whose_measurements_depend_on_data_is_found(tmp_path: Path) -> None:
    whole = people()
    first = published(tmp_path / "with", whole)
    assert first != published(tmp_path / "without", [change for change in whole if change[1] != "p0"])


def test_no_planted_value_is_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, values, column names that no release uses, paths, keys of the store, addresses of publishers."""
    monkeypatch.setenv("STORE_KEY", base64.b64encode(PLANTED.ljust(32, "x").encode()[:32]).decode())
    monkeypatch.setenv("HOOK", f"{PLANTED}-secret")
    secret_folder = tmp_path / f"{PLANTED}-folder"
    secret_folder.mkdir()
    columns = {"ward": "VARCHAR", f"{PLANTED}-column": "VARCHAR"}
    changes = [
        (START + n, f"{PLANTED}-{n}", {"ward": "a", f"{PLANTED}-column": f"{PLANTED}-value-{n}"})
        for n in range(1, 50)
    ]
    gauge = Gauge(
        source=Script(columns=columns, changes=changes),
        constraint={"at_most": 2},
        budget={"epsilon": 2, "delta": "1e-6"},
        releases={"by_ward": RELEASES["by_ward"]},
        store=secret_folder / "store.db",
        base=secret_folder,
        publish={
            "page": {"kind": "public", "path": "../public.db"},
            "hook": {"kind": "webhook", "url": f"http://127.0.0.1:9/{PLANTED}", "secret": "env:HOOK"},
            "run": {"kind": "command", "command": [f"/{PLANTED}"]},
        },
        now=lambda: START + 5 * DAY,
    )
    list(gauge.run())
    assert {one.name for one in gauge.undelivered} == {"hook", "run"}
    assert PLANTED in str(gauge.undelivered)  # the program's name, which its operator declared
    content = (tmp_path / "public.db").read_bytes()
    assert b"by_ward" in content
    assert PLANTED.encode() not in content
    with PublicFile(tmp_path / "public.db") as public:
        assert public.guarantee.simulated is False
        assert public.guarantee.sentence.startswith("Everything published together")
