"""Folders for what does not fit into memory: none is left behind, not even by a process that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.servers.postgres import Server, binaries
from tidegauge.scratch import ScratchFolder, process_folder


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def other(statement: str) -> subprocess.Popen[bytes]:
    """A process that has made its folder, in which there is a file."""
    made = (
        "from tidegauge.scratch import ScratchFolder; from pathlib import Path; import "
        "sys; one = ScratchFolder(); (Path(one.name) / "
        "'spilled').write_text('secret'); print(flush=True); sys.stdin.read(); "
    )
    process = subprocess.Popen(
        [sys.executable, "-c", made + statement], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def end(process: subprocess.Popen[bytes]) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    return process.wait(60)


def test_a_killed_process_leaves_one_which_the_next_removes(parent: Path) -> None:
    living, killed = other("pass"), other("pass")
    assert len(list(parent.iterdir())) == 2
    killed.send_signal(signal.SIGKILL)
    assert end(killed) == -signal.SIGKILL
    with ScratchFolder() as folder:
        assert (Path(folder.name).stat().st_mode & 0o777) == 0o700
        assert len(list(parent.iterdir())) == 2, "its own and that of the process that lives"
        with ScratchFolder():
            assert Path(folder.name).exists(), "not one of the same process either"
    assert len(list(parent.iterdir())) == 1
    assert end(living) == 0
    assert list(parent.iterdir()) == []


@pytest.mark.parametrize("statement", ["raise SystemExit(3)", "1 / 0", "del one"])
def test_nothing_is_left_however_a_process_ends(parent: Path, statement: str) -> None:
    process = other(f"sys.stderr.close(); {statement}")
    end(process)
    assert list(parent.iterdir()) == []


def test_what_is_not_ours_is_left_alone(parent: Path, tmp_path: Path) -> None:
    (parent / "tidegauge-scratch-file").write_text("")
    (parent / "elsewhere").mkdir()
    (parent / "tidegauge-scratch-link").symlink_to(parent / "elsewhere")
    ScratchFolder().cleanup()
    assert {path.name for path in parent.iterdir()} == {
        "elsewhere",
        "tidegauge-scratch-file",
        "tidegauge-scratch-link",
    }


def test_a_server_of_the_tests_leaves_nothing_when_they_are_killed() -> None:
    code = (
        "from tests.servers.postgres import Server, binaries; import sys; one = Server(binaries()[0]); "
        "print(one.root, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    assert process.stdout is not None
    root = Path(process.stdout.readline().decode().strip())
    assert root.exists()
    process.send_signal(signal.SIGKILL)
    end(process)
    for _ in range(600):
        if not root.exists():
            break
        time.sleep(0.1)
    assert not root.exists()
    with closing(_Stopped()) as again:
        assert again.server.root.exists()
    assert not again.server.root.exists()


class _Stopped:
    def __init__(self) -> None:
        self.server = Server(binaries()[0])

    def close(self) -> None:
        self.server.crash()
        self.server.start()
        self.server.stop()


def test_one_that_another_process_sweeps_before_it_is_locked_is_made_again(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = tempfile.mkdtemp, []

    def swept(**options: str) -> str:
        made.append(make(**options))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", swept)
    with ScratchFolder() as folder:
        assert [Path(folder.name)] == list(parent.iterdir())
    assert len(made) == 2


def test_a_folder_that_is_removed_before_it_is_locked_is_made_again(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process starts in the same moment and takes the new folder for one that was left behind."""
    import fcntl
    import shutil

    lock = fcntl.flock
    lost: list[Path] = []

    def late(handle: int, operation: int) -> None:
        if not lost and not operation & fcntl.LOCK_NB:
            lost.extend(parent.iterdir())
            shutil.rmtree(lost[0])
        lock(handle, operation)

    monkeypatch.setattr("tidegauge.scratch.fcntl.flock", late)
    with process_folder(), ScratchFolder() as folder:
        assert Path(folder.name).is_dir()
        assert not lost[0].exists()
    assert list(parent.iterdir()) == []
