"""Noise that is drawn ahead: drawn once, kept secret, used once,
and erased with the tick that publishes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.audit.findings import Discrepancy
from tidegauge.audit.replay.ahead import without_noise
from tidegauge.audit.replay.transcript import Labels
from tidegauge.audit.worlds.world import Random
from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.mechanism.encode import draw_ahead
from tidegauge.model.tick import NoiseAhead
from tidegauge.store.public.journal import Journal
from tidegauge.store.public.part import PublicPart
from tidegauge.store.secret.packed import packed, unpacked
from tidegauge.store.secret.part import SecretPart
from tidegauge.store.store import Store
from tidegauge.testing import Clock, Crashed, Script

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.run.gauge import Gauge

PURE = {"epsilon": 1}
EVERY = {"start": "1970-01-01T00:00:00.000005Z", "every": "5 microseconds", "for": "25 microseconds"}
OWN = {"name": "ahead", "branching": 2, "height": 3, "bins": 6, "first": 0}
RELEASES: dict[str, Any] = {
    "by_ward": {
        "sql": "SELECT ward, COUNT(*) FROM t GROUP BY ward",
        "groups": {"ward": ["a", "b"]},
        "strategy": OWN,
        **EVERY,
    },
    "age": {"sql": "SELECT AVG(age) FROM t", "bounds": {"age": [0, 90]}, "strategy": OWN, **EVERY},
}


def ahead(folder: Path, source: Script | None = None, **changes: Any) -> Gauge:
    source = source or Script(COLUMNS, life(), size=7)
    return gauge(folder, source, **({"budget": PURE, "releases": RELEASES} | changes))


def explained(one: Gauge, labels: Labels, key: bytes | None = None) -> list[dict[tuple[int, int], int]]:
    """The exact values, once the noise of one set of draws is taken off; every release has its own."""
    found, used = [], set[int]()
    with Store(one.path, key=key) as store:
        for release in one.plan().releases:
            name, cells = release.release.name, len(release.release.query.cells)
            rows = store.public.measured(name, len(release.component_plans))
            for component_plan, numbers in zip(release.component_plans, rows, strict=True):
                values = {(n // cells, n % cells): value for n, value in enumerate(numbers)}
                part = without_noise(component_plan, values, laws=labels.laws, starts=labels.starts)
                assert used.isdisjoint(part.draws)
                used |= part.draws
                found.append(part.exact)
    return found


DEATHS: list[tuple[str, type, str, str | None]] = [
    ("before", SecretPart, "noise_ahead", None),
    ("before", SecretPart, "set_noise_ahead", None),
    ("after", SecretPart, "set_noise_ahead", "env:KEY"),
    ("before", PublicPart, "record", None),
    ("after", PublicPart, "set_next_bin", "env:KEY"),
    ("before", SecretPart, "set_clock", None),
    ("after", Journal, "seal", None),
    ("before", Store, "commit", None),
    ("after", Store, "commit", None),
]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[dict[tuple[int, int], int]]:
    one = ahead(tmp_path_factory.mktemp("calm"), sampler=(labels := Labels(Random(4))))
    list(one.run())
    return explained(one, labels)


@pytest.mark.parametrize(
    "death",
    [
        pytest.param(one, id=str(one), marks=[pytest.mark.slow] if n % 2 else [])
        for n, one in enumerate(DEATHS)
    ],
)
def test_noise_is_drawn_once_wherever_a_tick_dies(
    tmp_path: Path, calm: Any, monkeypatch: pytest.MonkeyPatch, death: tuple[str, type, str, str | None]
) -> None:
    """All that was ever published has the noise of one set of draws, made before the first reading."""
    monkeypatch.setenv("KEY", "4f" * 32)
    when, owner, step, key = death
    real, calls, labels = getattr(owner, step), 0, Labels(Random(3))

    def deadly(self: Any, *args: Any, **kinds: Any) -> Any:
        nonlocal calls
        calls += 1
        dies = calls in {1, 4, 8, 13}
        if when == "before" and dies:
            raise Crashed
        result = real(self, *args, **kinds)
        if when == "after" and dies:
            raise Crashed
        return result

    monkeypatch.setattr(owner, step, deadly)
    deaths = 0
    for now in (7, 7, 7, 12, 12, 17, 17, 1000, 1000, 1000, 1000):
        one = ahead(tmp_path, Script(COLUMNS, life(), size=25), sampler=labels, key=key, now=Clock(now))
        try:
            list(one.run())
        except Crashed:
            deaths += 1
    assert deaths >= 2
    monkeypatch.setattr(owner, step, real)
    found = explained(one, labels, bytes.fromhex("4f" * 32) if key else None)
    assert found == calm
    assert one.verify().readings == 6 * 2 + 6


def test_noise_that_is_drawn_again_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: noise for what is left is drawn again in every run."""

    def again(plan: Any, component: int, known: object, bins: int, sampler: Any) -> Any:
        del known
        if sampler is None:
            return None
        found = draw_ahead(plan.component_plans[component], len(plan.release.query.cells), sampler)
        assert found is not None
        return found[bins:]

    monkeypatch.setattr("tidegauge.run.tick.noise_ahead", again)
    labels = Labels(Random(3))
    for now in (7, 1000):
        one = ahead(tmp_path, sampler=labels, now=Clock(now))
        list(one.run())
    with pytest.raises(Discrepancy, match="drawn ahead for them, once"):
        explained(one, labels)


def test_noise_that_is_missing_or_of_another_time_is_not_drawn_again(tmp_path: Path) -> None:
    one = ahead(tmp_path, now=Clock(17))
    list(one.run())
    with Store(one.path, write=True) as store, store.transaction():
        right = store.secret.noise_ahead("age", 1)
        assert right is not None
        assert (right.bin, right.rows.shape) == (3, (3, 1))
        store.secret.set_noise_ahead("age", 1, NoiseAhead(right.bin - 1, right.rows))
    again = ahead(tmp_path)
    for do in (again.verify, lambda: list(again.run())):
        with pytest.raises(StoreCorrupt, match="noise drawn ahead for 'age' does not belong"):
            do()
    with Store(one.path, write=True) as store, store.transaction():
        store._file.connection.execute("DELETE FROM secrets WHERE key = 'noise_ahead:age:1'")
    for do in (again.verify, lambda: list(again.run())):
        with pytest.raises(StoreCorrupt, match="noise drawn ahead for 'age' does not belong"):
            do()


def test_used_noise_is_gone_and_the_rest_goes_with_the_last_reading(tmp_path: Path) -> None:
    """Neither in the table nor in what SQLite left of it in the file."""
    one = ahead(tmp_path, now=Clock(7))
    list(one.run())
    with Store(one.path) as store:
        early = store.secret.secrets.get("noise_ahead:by_ward:0")
    list(ahead(tmp_path, now=Clock(12)).run())
    with Store(one.path) as store:
        later = store.secret.noise_ahead("by_ward", 0)
    assert later is not None
    assert (unpacked(*early[1:])[1:] == later.rows).all()
    assert early[3].encode() not in one.path.read_bytes()
    list(ahead(tmp_path).run())
    with Store(one.path) as store:
        assert store.secret.noise_ahead("by_ward", 0) is None
    assert packed(later.rows)[2].encode() not in one.path.read_bytes()


def test_an_encrypted_store_shows_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "4f" * 32)
    one = ahead(tmp_path, key="env:KEY", now=Clock(7))
    list(one.run())
    with Store(one.path, key=bytes.fromhex("4f" * 32)) as store:
        kept = store.secret.noise_ahead("by_ward", 0)
    assert kept is not None
    assert packed(kept.rows)[2].encode() not in one.path.read_bytes()


def test_packed_numbers_have_a_length_that_says_nothing() -> None:
    for number in (0, -1, 2**62, -(2**63)):
        assert len(packed(np.array([[number, 1]], dtype=object))[2]) == 24
    for number in (0, -1, 2**63, -(2**63) - 1, 10**70):
        rows = np.array([[number, -number], [3, 4]], dtype=object)
        assert (unpacked(*packed(rows)) == rows).all()
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        unpacked(2, 8, "AAAA")


def test_it_needs_pure_epsilon_and_an_end(tmp_path: Path) -> None:
    release = {"sql": "SELECT COUNT(*) FROM t", "strategy": OWN, **EVERY}
    for changes in ({"budget": {"epsilon": 1, "delta": "1e-6"}}, {"budget": {"rho": 1}}):
        with pytest.raises(SpecError, match="needs a budget in pure epsilon and a release that ends"):
            ahead(tmp_path, releases={"r": release}, **changes).plan()
    with pytest.raises(SpecError, match="needs a budget in pure epsilon and a release that ends"):
        ahead(tmp_path, releases={"r": {**release, "for": "ever", "strategy": "ahead"}}).plan()


def test_without_noise_it_publishes_the_truth(tmp_path: Path) -> None:
    found = ahead(tmp_path, budget={"epsilon": 10**9})
    plain = {name: {**release, "strategy": "disjoint"} for name, release in RELEASES.items()}
    other = ahead(tmp_path, budget={"epsilon": 10**9}, releases=plain, store=tmp_path / "other.db")
    values = [[(r.release, r.time, str(r.group), r.value) for r in one.run()] for one in (found, other)]
    assert values[0] == values[1]
