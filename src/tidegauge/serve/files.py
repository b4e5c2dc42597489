"""The public file that a web process serves: always the newest, opened again when it was replaced."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from tidegauge.errors import StoreError
from tidegauge.publish.public.reader import PublicFile, identity

if TYPE_CHECKING:
    from pathlib import Path

_VERSION: Final = version("tidegauge")


class Files:
    """Opens a public file, and opens it again once another is in its place; for one thread.

    Where the new file cannot be used, the last one is served on: a web process that has served goes on to do
    so while files are exchanged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: PublicFile | None = None
        self.tag = ""
        """Identifies the last tick: its seal."""
        self.page_tag = ""
        """Identifies the last tick, plan, ledger and description, and the version of Tidegauge."""

    def current(self) -> PublicFile:
        """The newest public file.  Raises StoreError where there never was one that can be used."""
        try:
            if self._open is None or identity(self.path) != self._open.identity:
                self._exchange(PublicFile(self.path))
        except StoreError:
            if self._open is None:
                raise
        assert self._open is not None
        return self._open

    def _exchange(self, fresh: PublicFile) -> None:
        try:
            whole = json.dumps(asdict(fresh.document), sort_keys=True, default=dict)
            tag = fresh.last_seal.hash
        except BaseException:
            fresh.close()
            raise
        self.close()
        self._open, self.tag = fresh, tag
        digest = hashlib.sha256(f"{_VERSION} {tag} {whole}".encode()).hexdigest()
        self.page_tag = f"{tag[:32]}-{digest[:32]}"

    def close(self) -> None:
        """Close the file that is open."""
        if self._open is not None:
            self._open.close()
            self._open = None
