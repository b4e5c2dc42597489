"""A gauge reads the whole past at once, and goes on from there, as if it had read the past step by step."""

from __future__ import annotations

import csv
import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import tidegauge as tg
from tests.seeds import seeds

if TYPE_CHECKING:
    from pathlib import Path

DAYS = 30
MOVED = "SELECT COUNT(*) FROM changes(t) WHERE before.ward = 'a' AND after.ward = 'b'"
START = "2025-01-01"


def write_log(path: Path, seed: int) -> None:
    """Rows of a few people: they are inserted, moved to another person, changed, deleted, and come back."""
    rng = random.Random(seed)
    owner: dict[int, str] = {}
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["ts", "id", "after_person", "after_ward", "after_age"])
        for minute in sorted(rng.sample(range(DAYS * 1440), 250)):
            ts = f"2025-01-{1 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00Z"
            for key in rng.sample(range(40), rng.choice([1, 1, 1, 3])):
                if key in owner and rng.random() < 0.25:
                    del owner[key]
                    rows.writerow([ts, key, "", "", ""])
                    continue
                if key not in owner or rng.random() < 0.2:
                    owner[key] = rng.choice(["ann", "bob", "cy", "di"])
                rows.writerow([ts, key, owner[key], rng.choice("ab"), rng.randint(0, 90)])


def on_excess(seed: int) -> str:
    return "retire" if seed % 3 == 0 else "freeze"


def gauge(folder: Path, store: str, seed: int, *, owned: bool, renews: bool) -> tg.Gauge:
    """A gauge without noise."""
    rng = random.Random(seed)
    schedule = {"start": START, "every": "1 day", "for": f"{DAYS - 1} days"}
    within = {"within": f"{rng.choice([3, 9])} days"} if rng.random() < 0.5 else {}
    return tg.Gauge(
        source={
            "kind": "files", "path": str(folder / "log.csv"), "table": "t", "time": "ts", "key": "id",
            "after": "after_", **({"unit": "person", "max_rows": rng.choice([1, 2, 5])} if owned else {}),
        },
        constraint={
            "at_most": rng.choice([2, 5, 40]), "on_excess": on_excess(seed), **within,
            **({"renews": rng.choice(["7 days", "2 weeks"])} if renews else {}),
        },
        budget={"epsilon": 10**9},
        releases={
            "by_ward": {
                "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
                "groups": {"ward": ["a", "b"]}, **schedule
            },
            "ages": {"sql": "SELECT SUM(age) FROM t", "bounds": {"age": [0, 80]}, **schedule},
            **({"moved": {"sql": MOVED, **schedule}} if seed % 2 else {}),
        },
        store=folder / store,
    )  # fmt: skip


@pytest.mark.parametrize(("owned", "renews"), [(True, False), (False, False), (False, True)])
@pytest.mark.parametrize("seed", seeds(0, 40, quick=3))
@pytest.mark.filterwarnings("ignore:.*epsilon.*")
def test_the_past_at_once_or_in_steps(seed: int, owned: bool, renews: bool, tmp_path: Path) -> None:
    write_log(tmp_path / "log.csv", seed)
    found = {}
    for name, stops in {"once": (), "late": (20,), "steps": (1, 2, 9, 10, 23)}.items():
        one = gauge(tmp_path, f"{name}.db", seed, owned=owned, renews=renews)
        for day in stops:
            list(one.run(until=f"2025-01-{day:02}"))
        list(one.run())
        one.verify()
        status = one.status().as_json()
        found[name] = (
            [(each.release, each.time, str(each.group), round(each.value or 0)) for each in one.published()],
            status["whole_error"] if "whole_error" in status else status["releases"],
        )
    assert found["late"] == found["steps"]
    assert found["once"] == found["steps"]
    if on_excess(seed) == "freeze":  # people who left may have left before the first reading
        assert len({value for *_, value in found["once"][0]}) > 3


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (pa.timestamp("us", "UTC"), {}),
        (pa.timestamp("ms", "Europe/Berlin"), {}),
        (pa.timestamp("ns", "UTC"), {}),
        (pa.timestamp("ns"), {}),
        (pa.timestamp("ns"), {"use_deprecated_int96_timestamps": True}),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*epsilon.*")
def test_instants_in_parquet_files_are_the_same_rows_and_units_in_every_run(
    kind: pa.TimestampType, written: dict[str, Any], tmp_path: Path
) -> None:
    """The first run reads parquet files in place, and later ones as blocks."""
    base = 1735689600 * 10 ** {"ms": 3, "us": 6, "ns": 9}[kind.unit] + 600

    def instants(of: int) -> pa.Array:
        return pa.array([base + n % of for n in range(60)], pa.int64()).cast(kind)

    days = [datetime(2025, 1, 1 + n // 6, tzinfo=UTC) for n in range(60)]
    columns = {
        "ts": pa.array(days, pa.timestamp("us", "UTC")),
        "id": instants(3),
        "person": instants(2),
        "seen": instants(5),
        "ward": pa.array(["ab"[n // 4 % 2] for n in range(60)]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "log.parquet", **written)
    found = []
    for name, stops in {"once": (), "steps": (3, 4)}.items():
        one = tg.Gauge(
            source={
                "kind": "files", "path": str(tmp_path / "log.parquet"), "table": "t", "time": "ts",
                "key": "id", "unit": "person", "max_rows": 2,
            },
            constraint={"at_most": 4},
            budget={"epsilon": 10**9},
            releases={
                "n": {
                    "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward", "groups": {"ward": ["a", "b"]},
                    "start": START, "every": "1 day", "for": "9 days",
                }
            },
            store=tmp_path / f"{name}.db",
        )  # fmt: skip
        for day in stops:
            list(one.run(until=f"2025-01-{day:02}"))
        list(one.run())
        counts = one.status().operator_only
        found.append(([(each.time, round(each.value or 0)) for each in one.published()], counts))
    assert found[0] == found[1]
    assert len({value for _, value in found[0][0]}) > 1
