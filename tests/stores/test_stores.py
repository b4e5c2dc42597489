"""Stores that older versions wrote open, run on and verify."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden.compare import differences, plain
from tests.stores.keep import FLAVOURS, FOLDER, ended, opened, published, run_on, unpack
from tests.stores.worlds import DAYS_BEFORE, WORLDS

if TYPE_CHECKING:
    from pathlib import Path

KEPT = sorted(path.name.removesuffix(".tar.gz") for path in FOLDER.glob("*.tar.gz"))


def expected(name: str, flavour: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes()))[flavour]
    return found


def test_every_world_is_kept_and_small() -> None:
    assert sorted(WORLDS) == KEPT
    assert sum(path.stat().st_size for path in FOLDER.glob("*.gz")) < 400_000


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("name", KEPT)
def test_a_kept_store_opens_runs_on_and_verifies(
    name: str, flavour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGAUGE_KEPT_KEY", "")  # put back as it was at the end
    unpack(name, tmp_path)
    kept, folder = expected(name, flavour), tmp_path / flavour
    before = opened(folder, DAYS_BEFORE)
    assert published(before) == kept["published"]
    assert before.plan().hash == kept["hash"]
    assert before.verify().readings == len(kept["published"])

    after = run_on(name, folder, simulated=flavour == "simulated")
    readings = published(after)
    places = [json.dumps([row["release"], row["time"], row["group"]]) for row in readings]
    by_place = dict(zip(places, readings, strict=True))
    for row in kept["published"]:
        assert by_place[json.dumps([row["release"], row["time"], row["group"]])] == row
    assert len(readings) > len(kept["published"])
    now, then = ended(after), {part: kept[part] for part in ("status", "timetable", "verified")}
    counts = then["status"]["operator_only"]
    if "past_limit" in counts:  # the older name
        counts["dropped"] = counts.pop("past_limit")
    reached = now["status"].pop(
        "processed_to"
    )  # it was the last look at a live source once: later than the last bin
    assert max(row["time"] for row in readings) == reached <= then["status"].pop("processed_to")
    changed = list(differences(then, now))
    if flavour == "simulated":
        changed += differences(plain(kept["values"]), plain([row["value"] for row in readings]))
    assert not changed, "\n".join(changed[:20])
