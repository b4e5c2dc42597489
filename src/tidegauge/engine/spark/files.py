"""The files of an engine's state: folders of Parquet that are written once and never changed.

The text of a version names the folders that belong to it; the store commits this text with the tick.  A
folder that no committed version names is left over from a tick that was not committed, and is removed.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.durable import private_folder, sync_file, sync_folder
from tidegauge.engine.spark import paths
from tidegauge.engine.spark.sealed import digest
from tidegauge.errors import StoreCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from tidegauge.engine.spark.sealed import Sealing

BUCKETS: Final = 16
"""So many files a folder of the state has, one a bucket of units."""


@dataclass(frozen=True)
class Version:
    """The folders of one version of the state, oldest first, and how far it has come.

    state:   of several rows of one unit that of the last folder counts.
    waiting: the changes that have not taken effect.
    since:   the number of the first batch that arrived after the last fold.
    digests: of an encrypted store, that of each folder.
    """

    number: int = 0
    state: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    since: int = 0
    digests: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        digests = [self.digests] if self.digests else []
        return json.dumps([self.number, self.state, self.waiting, self.since, *digests])

    @classmethod
    def parse(cls, text: str | None) -> Version:
        """The version of a text; None: the first, which is empty."""
        if text is None:
            return cls()
        number, state, waiting, since, *digests = json.loads(text)
        return cls(number, tuple(state), tuple(waiting), since, *digests)

    def next(
        self,
        *,
        state: tuple[str, ...] | None = None,
        waiting: tuple[str, ...] | None = None,
        since: int | None = None,
    ) -> Version:
        """The version after this one; None: as in this one."""
        return Version(
            self.number + 1,
            self.state if state is None else state,
            self.waiting if waiting is None else waiting,
            self.since if since is None else since,
        )


def beside(store: Path, ending: str) -> Path:
    """The folder of a store with this ending: hospital.db has hospital.spark, a.v1 has a.v1.spark."""
    return store.with_name(f"{store.name.removesuffix('.db')}.{ending}").resolve()


def make_durable(place: Path) -> None:
    """Let a folder of files, which was just written, survive a power cut."""
    for file in sorted(place.iterdir()):
        sync_file(file)
    sync_folder(place)
    sync_folder(place.parent)


def remove(place: Path) -> None:
    """Remove a folder of files, if it is there."""
    if place.is_dir():
        shutil.rmtree(place)  # a write that was killed leaves folders in it


class StateFiles:
    """The folder of a gauge's state; `sealing`: of an encrypted store."""

    def __init__(self, spark: SparkSession, folder: Path, sealing: Sealing | None = None) -> None:
        self._spark, self._folder, self._sealing = spark, folder, sealing
        self._digests: dict[str, str] = {}
        """Of the folders that this process wrote or checked."""

    def write(self, frame: DataFrame, name: str, *, by_unit: bool = False) -> bool:
        """Write a folder durably.  Returns whether it has rows; one without is removed.

        by_unit: one sorted file per bucket of units.
        """
        place = self.place(name)
        if by_unit:
            frame = frame.repartition(BUCKETS, "unit").sortWithinPartitions("unit")
        if self._sealing is None:
            frame.write.mode("overwrite").parquet(paths.written(place))
        else:
            self._sealing.write(frame, place)
        if self.read(name).isEmpty():
            remove(place)
            return False
        make_durable(place)
        if self._sealing is not None:
            self._digests[name] = digest(place)
        return True

    def place(self, name: str) -> Path:
        """Where a folder lies."""
        private_folder(self._folder)
        return self._folder / name

    def read(self, name: str) -> DataFrame:
        """The rows of a folder."""
        if self._sealing is not None:
            return self._sealing.read(self._folder / name)
        return self._spark.read.parquet(paths.read(self._folder / name))

    def digested(self, version: Version) -> Version:
        """The version with the digests of its folders, if the store is encrypted."""
        if self._sealing is None:
            return version
        return replace(
            version, digests={name: self._digests[name] for name in (*version.state, *version.waiting)}
        )

    def require(self, version: Version) -> None:
        """Raise StoreCorrupt unless all folders of the version are as written; remove all others."""
        wanted = {*version.state, *version.waiting}
        found = {path.name for path in self._folder.iterdir()} if self._folder.is_dir() else set()
        missing = sorted(name for name in wanted if not (self._folder / name / "_SUCCESS").exists())
        if missing:
            raise StoreCorrupt(
                f"the state of the gauge is not complete: {self._folder.name}/{missing[0]} is missing. "
                "Nothing was read or spent. Restore the store and the folder from the same copy.",
                advice=None,
            )
        if self._sealing is not None:
            for name in sorted(wanted - self._digests.keys()):
                self._digests[name] = self._checked(name, version)
        for name in found - wanted:
            remove(self._folder / name)
            self._digests.pop(name, None)

    def _checked(self, name: str, version: Version) -> str:
        """The digest of a folder.  Raises StoreCorrupt unless it is the one that the version has."""
        if (found := digest(self._folder / name)) != version.digests.get(name):
            raise StoreCorrupt(
                f"the state of the gauge was altered: {self._folder.name}/{name} is not as this gauge wrote "
                "it. Nothing was read or spent. Restore the store and the folder from the same copy.",
                advice=None,
            )
        return found
