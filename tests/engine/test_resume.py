"""A fold of a history that dies is continued, and gives what a fold without an interruption gives."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.engine.harness import COLUMNS, START, batch_table, last_end
from tests.engine.test_past import (
    ENDS,
    Result,
    TableHistory,
    counted,
    flow_world,
    in_order,
    owned_world,
    plain_world,
    state,
    term_world,
    told,
)
from tests.seeds import seeds
from tidegauge.engine.duckdb.engine import DuckEngine
from tidegauge.engine.duckdb.past import fold, parts, shuffle, work
from tidegauge.engine.duckdb.past.segments import unpacked
from tidegauge.model.history import LastingHistory, Narrating
from tidegauge.store.cipher import Cipher
from tidegauge.store.secret.unfinished import KeptFiles, Unfinished, folder_of
from tidegauge.testing import Crashed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidegauge.model.history import Piece


class Lasting(TableHistory, LastingHistory):
    """A table that another process can read again."""

    def fingerprint(self) -> str:
        return hashlib.sha256(str(self._rows.to_pylist()).encode()).hexdigest()

    def intact(self) -> None: ...

    def until(self, upto: int) -> TableHistory:
        raise NotImplementedError


class Mortal:
    """Keeps files until a process dies: before or after its NTH file, and with it every later one."""

    def __init__(self, keeper: Unfinished, nth: int | None = None, *, after: bool = False) -> None:
        self._keeper, self._nth, self._after, self.written = keeper, nth, after, 0

    def begin(self, work: str, **given: Any) -> Any:
        found = self._keeper.begin(work, **given)
        assert found is not None
        real = found.write

        def write(name: str, pieces: Sequence[Piece]) -> None:
            self.written += 1
            if self._nth is not None and self.written >= self._nth:
                if self._after and self.written == self._nth:
                    real(name, pieces)
                raise Crashed
            real(name, pieces)

        found.write = write  # type: ignore[method-assign]
        return found


class Told(Narrating):
    """A report that remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, done: int, total: int) -> None:
        assert 0 <= done <= total

    def says(self, text: str) -> None:
        self.said.append(text)


class Kept(Result):
    """The result of a history with a keeper."""

    def __init__(self, engine: DuckEngine, history: Lasting, keeper: Any) -> None:
        self.keeper, self.report = keeper, Told()
        self.fold(engine, history)

    def backfilled(self, engine: DuckEngine, history: Any) -> Any:
        return engine.backfill(
            history, state=self.run.memory, reached=history.upto, now=10**9, report=self.report,
            keeper=self.keeper,
        )  # fmt: skip


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts and segments of a few changes, divided on disk."""
    monkeypatch.setattr(shuffle, "PART", 4)
    monkeypatch.setattr(shuffle, "_SLICE", 7)
    monkeypatch.setattr(shuffle, "IN_MEMORY", 0)
    monkeypatch.setattr(shuffle, "_TOGETHER", 8)
    monkeypatch.setattr(parts, "ROWS", 2)


class Scene:
    """A drawn program and history, and what an uninterrupted fold makes of it."""

    def __init__(self, seed: int, folder: Path, *, sealed: bool = False, owned: bool = False) -> None:
        of_rows = (plain_world, term_world, plain_world, flow_world)[seed % 4]
        self.world = owned_world(seed) if owned else of_rows(seed)
        self.owned = owned
        drawn = self.world.mutations
        self.rows = told(drawn, self.world.rng, owned=owned) if seed % 2 else batch_table(drawn, owned=owned)
        reached = last_end(self.world.program, START, ENDS if seed % 5 else 40)
        assert reached is not None
        self.reached = reached
        cipher = Cipher.fresh(b"k" * 32) if sealed else None
        self.keeper = Unfinished(folder / "store.db", cipher, lambda: "this store and plan")
        self.folder = folder_of(self.keeper.store)
        with self.engine() as engine:
            self.calm = Result(engine, self.rows, self.reached)

    def engine(self) -> DuckEngine:
        return DuckEngine(self.world.program, COLUMNS)

    def history(self, rows: pa.Table | None = None) -> Lasting:
        return Lasting(self.rows if rows is None else rows, self.reached)

    def fold(self, keeper: Any = None) -> Kept:
        with self.engine() as engine:
            return Kept(engine, self.history(), keeper or self.keeper)

    def die(self, nth: int, *, after: bool = False) -> None:
        with pytest.raises(Crashed):
            self.fold(Mortal(self.keeper, nth, after=after))

    def names(self) -> set[str]:
        return {path.name for path in self.folder.glob("*.part")}

    def require_calm(self, found: Result) -> None:
        assert found.run.sums == self.calm.run.sums
        assert found.run.true == self.calm.run.true
        if self.owned:
            assert in_order(found.run) == in_order(self.calm.run)
        assert state(found.run)[self.owned :] == state(self.calm.run)[self.owned :]
        assert counted(found.run) == counted(self.calm.run)
        assert found.arrivals == self.calm.arrivals


def counting(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """The calls of a method from now on."""
    calls: list[Any] = []
    real: Callable[..., Any] = getattr(owner, name)

    def counted_(*given: Any, **more: Any) -> Any:
        calls.append(given)
        return real(*given, **more)

    monkeypatch.setattr(owner, name, counted_)
    return calls


@pytest.mark.parametrize("seed", seeds(8000, 40, quick=5))
def test_dying_after_every_file_once(seed: int, tmp_path: Path) -> None:
    """Each process finishes one more file than the one before, whatever was left by it."""
    scene, deaths = Scene(seed, tmp_path), 0
    while True:
        keeper = Mortal(scene.keeper, 2 if deaths % 2 else 1, after=deaths % 2 == 0)
        try:
            found = scene.fold(keeper)
        except Crashed:
            deaths += 1
            assert deaths < 200
            continue
        break
    assert deaths > 2
    scene.require_calm(found)


@pytest.mark.parametrize("seed", seeds(8050, 30, quick=4))
def test_changes_of_units_with_several_rows_are_divided_once(seed: int, tmp_path: Path) -> None:
    """Which of their rows count is computed again by every process."""
    scene, deaths = Scene(seed, tmp_path, sealed=seed % 3 == 0, owned=True), 0
    while True:
        try:
            found = scene.fold(Mortal(scene.keeper, 2 if deaths % 2 else 1, after=deaths % 2 == 0))
        except Crashed:
            deaths += 1
            assert deaths < 200
            continue
        break
    assert deaths > 1
    scene.require_calm(found)
    assert not any(name.startswith("enforced-") for name in scene.names())
    assert any(name.startswith("divided-") for name in scene.names())


@pytest.mark.parametrize("seed", seeds(8100, 30, quick=4))
def test_dying_once_at_any_file(seed: int, tmp_path: Path) -> None:
    scene = Scene(seed, tmp_path, sealed=seed % 3 == 0)
    calm = Mortal(scene.keeper)
    scene.fold(calm)
    for nth in scene.world.rng.sample(range(1, calm.written + 1), min(4, calm.written)):
        for path in scene.folder.iterdir():
            path.unlink()
        scene.folder.rmdir()
        scene.die(nth, after=nth % 2 == 0)
        scene.require_calm(scene.fold())


def test_what_is_finished_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(8003, tmp_path)
    whole = Mortal(scene.keeper)
    scene.fold(whole)
    scans, enforced = counting(monkeypatch, TableHistory, "scan"), counting(monkeypatch, fold, "enforce")
    again = scene.fold(Mortal(scene.keeper, 1))  # it would die if it wrote anything
    scene.require_calm(again)
    assert not enforced
    assert not [given for given in scans if "flags" in given[1]]
    results = sum(name.startswith("enforced-") for name in scene.names())
    (said,) = again.report.said
    assert said == work.CONTINUED.format(
        f"{results} of {shuffle.parts_of(scene.rows.num_rows)} parts are done"
    )


@pytest.mark.parametrize("seed", [8002, 8003, 8004, 8006])
def test_numbers_of_distinct_rows_that_grow_beyond_32_bits(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interruptions leave out numbers, so a later process can need longer ones."""
    scene = Scene(seed, tmp_path)
    scene.die(2)
    kept = scene.names()
    monkeypatch.setattr(fold, "_FEW", scene.rows.num_rows + 2)  # enough for a history from its beginning
    scene.require_calm(scene.fold())
    (first, *_), last = sorted(kept), max(one for one in scene.names() if one.startswith("divided-"))
    manifest = json.loads((scene.folder / "manifest.json").read_text("utf-8"))
    files = KeptFiles(scene.folder, f"{manifest['work']} {manifest['name']}", None)
    bits = {
        name: unpacked(files.read(name.removesuffix(".part"), number + 1)).schema.field("version").type
        for name in (first, last)
        for number in range(shuffle.parts_of(scene.rows.num_rows))
    }
    assert bits == {first: pa.int32(), last: pa.int64()}


def test_it_says_how_much_was_divided(tmp_path: Path) -> None:
    scene = Scene(8003, tmp_path)
    scene.die(3)
    share = 100 * 2 * 14 // scene.rows.num_rows
    said = scene.fold().report.said[0]
    assert "Continuing a history that was interrupted: " in said
    assert 0 < int(said.split(": ")[1].split(" %")[0]) <= share


@pytest.mark.parametrize("which", ["divided-", "divided.", "enforced-"])
@pytest.mark.parametrize("how", ["bit", "short", "gone", "empty"])
def test_a_damaged_file_is_made_again(tmp_path: Path, which: str, how: str) -> None:
    scene = Scene(8003, tmp_path)
    scene.fold()
    path = sorted(scene.folder.glob(f"{which}*"))[0]
    content = path.read_bytes()
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 4
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes({"bit": bytes(damaged), "short": content[:-1], "empty": b""}[how])
    scene.require_calm(scene.fold())
    scene.require_calm(scene.fold())  # results of the first division do not fit the second


def test_results_are_not_used_if_a_segment_was_made_again(tmp_path: Path) -> None:
    """Even if the process died between the segment and the new name of the division."""
    scene = Scene(8003, tmp_path)
    scene.fold()
    sorted(scene.folder.glob("divided-*"))[-1].unlink()
    written: list[str] = []

    class Dying:
        def begin(self, work: str, **given: Any) -> Any:
            found = scene.keeper.begin(work, **given)
            assert found is not None
            real = found.write

            def write(name: str, pieces: Sequence[Piece]) -> None:
                if any(one.startswith("divided-") for one in written):
                    raise Crashed
                written.append(name)
                real(name, pieces)

            found.write = write  # type: ignore[method-assign]
            return found

    with pytest.raises(Crashed):
        scene.fold(Dying())
    again = scene.fold()
    scene.require_calm(again)
    assert not any("parts are done" in said for said in again.report.said)


def test_a_file_of_another_place_is_not_used(tmp_path: Path) -> None:
    scene = Scene(8003, tmp_path)
    scene.fold()
    one, two = sorted(scene.folder.glob("enforced-*"))[:2]
    two.write_bytes(one.read_bytes())
    scene.require_calm(scene.fold())


def test_another_source_begins_again(tmp_path: Path) -> None:
    scene = Scene(8003, tmp_path)
    scene.fold()
    before = (scene.folder / "manifest.json").read_bytes()
    fewer = scene.rows.slice(0, scene.rows.num_rows - 3)
    with scene.engine() as engine:
        calm = Result(engine, fewer, scene.reached)
    with scene.engine() as engine:
        found = Kept(engine, scene.history(fewer), scene.keeper)
    assert (found.run.sums, state(found.run)) == (calm.run.sums, state(calm.run))
    assert not found.report.said
    assert (scene.folder / "manifest.json").read_bytes() != before


@pytest.mark.parametrize("other", ["plan", "cipher"])
def test_another_plan_or_store_begins_again(tmp_path: Path, other: str) -> None:
    scene = Scene(8003, tmp_path, sealed=True)
    scene.fold()
    cipher = Cipher.fresh(b"k" * 32) if other == "cipher" else scene.keeper.cipher
    owner = (lambda: "another") if other == "plan" else scene.keeper.owner
    found = scene.fold(Unfinished(scene.keeper.store, cipher, owner))
    assert not found.report.said
    scene.require_calm(found)


def test_the_twin_that_must_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a result of other rules were used, the comparisons above would notice."""
    scene = Scene(8003, tmp_path)
    scene.fold()
    for one, two in zip(*[iter(sorted(scene.folder.glob("enforced-*")))] * 2, strict=False):
        content = one.read_bytes()
        one.write_bytes(two.read_bytes())
        two.write_bytes(content)
    monkeypatch.setattr(KeptFiles, "_place", lambda _self, _name: b"")
    monkeypatch.setattr(KeptFiles, "_checked", lambda _self, path: _unchecked(path))
    with pytest.raises(AssertionError):
        scene.require_calm(with_one_result_twice(scene))


def _unchecked(path: Path) -> Any:
    from tidegauge.store.secret.unfinished import _DIGEST, _file

    with path.open("rb") as file:
        file.read(_DIGEST)
        return _file(path, file.readline())


def with_one_result_twice(scene: Scene) -> Kept:
    one, two = sorted(scene.folder.glob("enforced-*"))[:2]
    two.write_bytes(one.read_bytes())
    return scene.fold()


def test_without_a_fingerprint_nothing_is_kept(tmp_path: Path) -> None:
    scene = Scene(8003, tmp_path)
    history = scene.history()
    history.fingerprint = lambda: None  # type: ignore[method-assign, assignment, return-value]
    with scene.engine() as engine:
        scene.require_calm(Kept(engine, history, scene.keeper))
    assert not scene.folder.exists()


def test_a_history_in_memory_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffle, "IN_MEMORY", 10**9)
    scene = Scene(8003, tmp_path)
    scene.require_calm(scene.fold())
    assert not scene.folder.exists()


def test_what_was_read_of_a_changed_source_is_not_kept(tmp_path: Path) -> None:
    scene = Scene(8003, tmp_path)
    history, calls = scene.history(), []

    def intact() -> None:
        calls.append(1)
        if len(calls) == 2:
            raise Crashed

    history.intact = intact  # type: ignore[method-assign]
    with scene.engine() as engine, pytest.raises(Crashed):
        Kept(engine, history, scene.keeper)
    assert len(scene.names()) < 2
    scene.require_calm(scene.fold())
