"""A crash at any point of a tick loses nothing, repeats nothing and redraws nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.run.gauge import Gauge
from tidegauge.store.public.journal import Journal
from tidegauge.store.public.part import PublicPart
from tidegauge.store.secret.part import SecretPart
from tidegauge.store.secret.pending import Pending
from tidegauge.store.secret.secrets import Secrets
from tidegauge.store.secret.state import StoredState
from tidegauge.store.secret.sums import Sums
from tidegauge.store.secret.table.file import BlockFile
from tidegauge.store.store import Store
from tidegauge.testing import Crash, Crashed, Script


def published(one: Gauge) -> list[dict[str, Any]]:
    return [reading.as_json() for reading in one.published()]


def survive(one: Gauge) -> int:
    """Run until it ends without dying; returns how often it died."""
    for deaths in range(1000):
        try:
            for _ in one.run():
                pass
        except (Crashed, sqlite3.OperationalError):
            continue
        return deaths
    raise AssertionError("it never ended")


@pytest.fixture
def truth(tmp_path: Path) -> list[dict[str, Any]]:
    calm = gauge(tmp_path / "calm", Script(COLUMNS, life()))
    calm.path.parent.mkdir()
    survive(calm)
    return published(calm)


def test_a_source_that_dies_between_batches(tmp_path: Path, truth: list[dict[str, Any]]) -> None:
    script: list[Any] = [
        item for n, mutation in enumerate(life()) for item in ([Crash()] if n % 30 == 4 else []) + [mutation]
    ]
    one = gauge(tmp_path, Script(COLUMNS, script, size=25))
    assert survive(one) == sum(isinstance(item, Crash) for item in script)
    assert published(one) == truth
    assert one.verify().readings == len(truth)


DEADLY = {1, 3, 6, 10}
STEPS: list[tuple[type, str]] = [
    (Store, "load"),
    (Store, "commit"),
    (StoredState, "apply"),
    (BlockFile, "write"),
    (BlockFile, "delete"),
    (Sums, "add"),
    (Pending, "replace"),
    (PublicPart, "record"),
    (PublicPart, "set_next_bin"),
    (SecretPart, "keep"),
    (Sums, "drop"),
    (SecretPart, "set_clock"),
    (Journal, "seal"),
    (Secrets, "write"),
    (PublicPart, "attest"),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[0].__name__}.{step[1]}")
@pytest.mark.parametrize("when", ["before", "after"])
def test_dying_at_every_step_of_a_tick(
    tmp_path: Path,
    truth: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    step: tuple[type, str],
    when: str,
) -> None:
    calls = 0
    owner, name = step
    real = getattr(owner, name)

    def deadly(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if when == "before" and calls in DEADLY:
            raise Crashed
        result = real(self, *args, **kwargs)
        if when == "after" and calls in DEADLY:
            raise Crashed
        return result

    monkeypatch.setattr(owner, name, deadly)
    one = gauge(tmp_path, Script(COLUMNS, life(), size=40))
    assert survive(one) > 0
    assert published(one) == truth
    assert one.verify().readings == len(truth)


def test_what_was_published_is_never_drawn_again(tmp_path: Path) -> None:
    one = gauge(
        tmp_path, Script(COLUMNS, [*life()[:60], Crash(), *life()[60:]], size=20), budget={"epsilon": 1}
    )
    with pytest.raises(Crashed):
        list(one.run())
    before = published(one)
    assert before
    survive(one)
    assert [row for row in published(one) if row in before] == before
    survive(one)
    assert len({(row["release"], row["time"], str(row["group"])) for row in published(one)}) == len(
        published(one)
    )


def test_a_second_value_for_a_node_is_impossible(tmp_path: Path) -> None:
    one = gauge(tmp_path, Script(COLUMNS, life()))
    list(one.run())
    with Store(one.path, write=True) as store:
        row = store._file.connection.execute(
            "SELECT release, component, number, cell, bin, tick FROM journal LIMIT 1"
        ).fetchone()
        with pytest.raises(sqlite3.IntegrityError):
            store._file.connection.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?, '7', ?)", row)
