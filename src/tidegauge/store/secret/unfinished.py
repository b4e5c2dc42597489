"""The finished work on a history that is not committed yet, so that a killed run can be continued.

    STORE.history/      a folder beside the store, for its owner alone
        manifest.json   what the work belongs to: store, plan, source, instant, and how it is divided; and a
                        random name, so that files of two folders are never mixed
        NAME.part       one file of numbered pieces (tidegauge.model.history.Files)

A file is written under another name and renamed once it is complete.  It begins with a hash of its content
and of the manifest, so that a file that is damaged or of other work is not used.  Files are not forced to the
disk: a kill loses nothing of them, and a power cut loses the latest, which the hashes show.  With a key the
pieces are sealed, and all hashes that reveal something are keyed.

Everything here only saves work.  The store decides what is committed, and its next commit removes the folder.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.durable import private_file, replacing
from tidegauge.errors import StoreCorrupt, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from tidegauge.model.history import Piece
    from tidegauge.model.json import JsonObject
    from tidegauge.store.cipher import Cipher

FORMAT: Final = 1
_MANIFEST: Final = "manifest.json"
_PART: Final = ".part"
_OURS: Final = (_MANIFEST, f"{_MANIFEST}.new", f"*{_PART}", f"*{_PART}.new")
_DIGEST: Final = 64
"""A hash in hexadecimal has so many characters."""
_BLOCK: Final = 1 << 22
_LEFT: Final = (
    "It is where an interrupted history is kept, and what it keeps is secret. Remove it, then start again"
)
_AGAIN: Final = "Nothing was committed. Remove the folder, then start again: the history begins again"


def folder_of(store: Path) -> Path:
    """The folder of the store at this path."""
    return store.with_name(f"{store.name}.history")


def is_unfinished(store: Path) -> bool:
    """Whether an interrupted history is kept for the store at this path."""
    with suppress(OSError):  # a folder of another user
        return (folder_of(store) / _MANIFEST).exists()
    return False


def erase(store: Path) -> None:
    """Remove the folder of the store at this path; the manifest first, so that no rest of it is used.

    Raises StoreError where something else is in it.
    """
    folder = folder_of(store)
    if not os.path.lexists(folder):
        return
    with _refusing(folder, "cannot be removed", _LEFT):
        if folder.is_symlink() or not folder.is_dir():
            folder.unlink()
            return
        for pattern in _OURS:
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)
        folder.rmdir()


@dataclass(frozen=True)
class Unfinished:
    """The kept work of one store and plan."""

    store: Path
    cipher: Cipher | None
    owner: Callable[[], str]
    """What the work belongs to: the identity of the store, and the hash of its plan."""

    @property
    def found(self) -> bool:
        """Whether there is any."""
        return is_unfinished(self.store)

    def upto(self, source: str) -> int | None:
        """The instant up to which the kept work reaches; None: there is none for this source."""
        manifest = self._manifest()
        if manifest is None or manifest.get("source") != self._hash("source", source):
            return None
        upto = manifest.get("upto")
        return upto if isinstance(upto, int) else None

    def begin(self, work: str, *, source: str, upto: int, size: int) -> KeptFiles | None:
        """The files of this work; those of any other work are removed.  None: there is no room for them."""
        wanted: JsonObject = {
            "format": FORMAT,
            "upto": upto,
            "source": self._hash("source", source),
            "work": self._hash("work", source, str(upto), work),
        }
        folder, known = folder_of(self.store), self._manifest() or {}
        name = known.get("name")
        if known != {**wanted, "name": name} or not isinstance(name, str):
            name = os.urandom(16).hex()
            erase(self.store)
            with _refusing(folder, "cannot be made"):
                if shutil.disk_usage(self.store.absolute().parent).free < 2 * size:
                    return None
                folder.mkdir(mode=0o700)
                with replacing(folder / _MANIFEST) as file:
                    file.write(json.dumps({**wanted, "name": name}).encode())
        return KeptFiles(folder, f"{wanted['work']} {name}", self.cipher)

    def _manifest(self) -> JsonObject | None:
        """What the kept work belongs to; None: there is none that this user may use."""
        folder = folder_of(self.store)
        try:
            found = folder.lstat()
            private = found.st_uid == os.geteuid() and not found.st_mode & 0o077
            if not stat.S_ISDIR(found.st_mode) or not private:
                return None
            manifest: JsonObject = json.loads((folder / _MANIFEST).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return manifest if isinstance(manifest, dict) and manifest.get("format") == FORMAT else None

    def _hash(self, use: str, *parts: str) -> str:
        """A hash of these parts for this store and plan; keyed where the store has a key."""
        every = (use, self.owner(), *parts)
        if self.cipher is not None:
            return self.cipher.mac("unfinished history", every)
        return hashlib.sha256(json.dumps(every).encode()).hexdigest()


@dataclass(frozen=True)
class _File:
    """Where the pieces of a file lie."""

    path: Path
    bounds: tuple[int, ...]


@dataclass
class KeptFiles:
    """The files of one work, each complete."""

    folder: Path
    work: str
    cipher: Cipher | None
    _files: dict[str, _File] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with _refusing(self.folder, "cannot be read"):
            for path in self.folder.glob(f"*{_PART}.new"):
                path.unlink(missing_ok=True)
            paths = sorted(self.folder.glob(f"*{_PART}"))
            with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
                found = dict(zip(paths, pool.map(self._checked, paths), strict=True))
            for path, file in found.items():
                if file is None:
                    path.unlink(missing_ok=True)
                else:
                    self._files[path.name.removesuffix(_PART)] = file

    @property
    def names(self) -> Collection[str]:
        """The files that are there, every byte of them checked."""
        return frozenset(self._files)

    def write(self, name: str, pieces: Sequence[Piece]) -> None:
        """Write a file completely or not at all."""
        path = self.folder / f"{name}{_PART}"
        beside = path.with_name(f"{path.name}.new")
        place = self._place(name)
        if self.cipher is not None:
            sealed = self.cipher.seal_pieces(place, b"history", dict(enumerate(pieces)))
            pieces = list(sealed.values())
        head = json.dumps([len(piece) for piece in pieces]).encode() + b"\n"
        digest = hashlib.sha256(place + head)
        for piece in pieces:
            digest.update(piece)
        with _refusing(self.folder, "cannot be written"):
            try:
                with os.fdopen(private_file(beside), "wb") as file:
                    file.truncate()
                    file.write(digest.hexdigest().encode() + head)
                    file.writelines(pieces)
                beside.replace(path)
            except OSError:
                with suppress(OSError):
                    beside.unlink(missing_ok=True)
                raise
        self._files[name] = _file(path, head)

    def read(self, name: str, number: int) -> bytes:
        """One piece of a file."""
        file = self._files[name]
        begin, end = file.bounds[number : number + 2]
        with _refusing(self.folder, "cannot be read"), file.path.open("rb", buffering=0) as opened:
            piece = os.pread(opened.fileno(), end - begin, begin)
            while len(piece) < end - begin:  # a system call reads 2 GiB at most
                more = os.pread(opened.fileno(), end - begin - len(piece), begin + len(piece))
                if not more:
                    raise _altered(self.folder)
                piece += more
        if self.cipher is None:
            return piece
        try:
            return self.cipher.open_piece(self._place(name), b"history", number, piece)
        except StoreCorrupt:
            raise _altered(self.folder) from None

    def close(self) -> None:
        """Free memory; the files stay."""
        self._files = {}

    def _place(self, name: str) -> bytes:
        return f"{self.work} {name} ".encode()

    def _checked(self, path: Path) -> _File | None:
        """The file, or None where it is damaged or belongs to other work."""
        with path.open("rb") as file:
            digest, head = file.read(_DIGEST), file.readline()
            found = hashlib.sha256(self._place(path.name.removesuffix(_PART)) + head)
            while block := file.read(_BLOCK):
                found.update(block)
        return _file(path, head) if found.hexdigest().encode() == digest else None


def _file(path: Path, head: bytes) -> _File:
    bounds = [_DIGEST + len(head)]
    for size in json.loads(head):
        bounds.append(bounds[-1] + size)
    return _File(path, tuple(bounds))


def _altered(folder: Path) -> StoreError:
    return StoreError(f"{folder}: a file was altered while the history was read. {_AGAIN}")


@contextmanager
def _refusing(folder: Path, what: str, advice: str = _AGAIN) -> Iterator[None]:
    """A block in which errors of the system are refusals."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise StoreError(
                f"{folder} cannot grow: the disk is full, or a quota is reached. Nothing was committed, and "
                "the finished parts of the history are kept. Make room, then start again: the run continues "
                "with the other parts"
            ) from None
        raise StoreError(f"{folder} {what}: {error.strerror}. {advice}") from None
