"""From bytes to counts: checks reports and counts them in a tally.

A tally is a matrix of integers with one row a window.  Its columns are: first reports; for each role, reports
that speak and reports that are idle; for each role, how often each symbol was reported.  Tallies of several
collectors add up.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.errors import LocalError
from tidegauge.local.groups import Group, Response, Tilted
from tidegauge.local.reporter import FIRST, HEADER, IDLE, VERSION, ReporterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.local.survey import Survey

    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_MOST_CELLS = 1 << 28


@dataclass(frozen=True)
class Batch:
    """Reports of one survey as columns."""

    window: Integers
    token: NDArray[np.uint64]
    role: Integers
    flags: Integers
    payload: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.window)

    def take(self, which: Mask | Integers) -> Batch:
        """Some of the reports."""
        return Batch(
            self.window[which], self.token[which], self.role[which], self.flags[which], self.payload[which]
        )


class Layout:
    """The columns of a survey's tally and the shape of its reports."""

    def __init__(self, survey: Survey) -> None:
        spec = survey.spec
        self.windows, self.answers, self.size = (
            survey.windows,
            len(survey.answers),
            HEADER.size + spec.payload,
        )
        self.survey = int.from_bytes(spec.hash, "big")
        self.groups: list[Group] = [survey.groups[group] for group, _ in spec.roles]  # by role
        roles = len(self.groups)
        self.speaking, self.idle = np.arange(1, roles + 1), np.arange(roles + 1, 2 * roles + 1)
        widths = [self._symbols(group) for group in self.groups]
        self.symbols = (
            1 + 2 * roles + np.concatenate([[0], np.cumsum(widths)])
        )  # where each role's symbols begin
        self.width = int(self.symbols[-1])
        if self.windows * self.width > _MOST_CELLS:
            raise LocalError(
                "a tally of this many windows and answers does not fit into memory; use fewer of either"
            )
        self._levels = np.array(
            [g.level if isinstance(g, Tilted) else 0 for g in self.groups], dtype=np.int64
        )
        self._record = np.dtype(
            [("version", "u1"), ("flags", "u1"), ("survey", ">u8"), ("role", ">u2"), ("window", ">u4"),
             ("token", ">u8"), ("payload", "u1", (spec.payload,))]
        )  # fmt: skip
        assert self._record.itemsize == self.size

    def _symbols(self, group: Group) -> int:
        if isinstance(group, Tilted):
            return group.law.signals + 1
        if isinstance(group, Response):
            return group.layers * (self.answers + 1) ** 2
        return self.answers + (group.oracle == "grr")

    def read(self, blob: bytes) -> tuple[Batch, int, int]:
        """The well-formed reports, the number of reports of other surveys and of malformed ones."""
        record = np.frombuffer(blob, dtype=self._record)
        foreign = (record["version"] == VERSION) & (record["survey"] != self.survey)
        fine = (record["version"] == VERSION) & ~foreign
        fine &= (
            (record["window"] < self.windows)
            & (record["role"] < len(self.groups))
            & (record["flags"] <= FIRST | IDLE)
        )
        usable = record if fine.all() else record[fine]
        batch = Batch(
            window=usable["window"].astype(np.int64),
            token=usable["token"].astype(np.uint64),
            role=usable["role"].astype(np.int64),
            flags=usable["flags"].astype(np.int64),
            payload=usable["payload"],
        )
        sound = self._sound(batch)
        batch = batch if sound.all() else batch.take(sound)
        strange = int(foreign.sum())
        return batch, strange, len(record) - strange - len(batch)

    def _sound(self, batch: Batch) -> Mask:
        """Which payloads their roles can send in their windows."""
        idle = (batch.flags & IDLE) > 0
        sound = np.where(
            idle, ~batch.payload.any(axis=1), (batch.window + 1) % (1 << self._levels[batch.role]) == 0
        )
        for group, mine in self._by_group(batch, ~idle).items():
            rest = batch.payload[mine]
            if isinstance(group, Response):
                cells, due = self._cells(rest, group), self._due(batch.window[mine], group)
                good = (np.where(due, cells, 0) < (self.answers + 1) ** 2).all(axis=1) & (
                    (cells == 0) | due
                ).all(axis=1)
                used = 2 * group.layers
            elif isinstance(group, Tilted) or group.oracle == "grr":
                top = group.law.signals if isinstance(group, Tilted) else self.answers
                good, used = _word(rest) <= top, 2
            else:
                used = -(-self.answers // 8)
                good = ~np.unpackbits(rest[:, :used], axis=1)[:, self.answers :].any(axis=1)
            sound[mine] &= good & ~rest[:, used:].any(axis=1)
        return sound

    def count(self, matrix: Integers, batch: Batch, rows: Integers) -> None:
        """Add the reports to these rows of a tally."""
        start = rows * self.width
        idle = (batch.flags & IDLE) > 0
        cells = [
            start[(batch.flags & FIRST) > 0],
            start + np.where(idle, self.idle[batch.role], self.speaking[batch.role]),
        ]
        for group, mine in self._by_group(batch, ~idle).items():
            at, rest = start[mine] + self.symbols[batch.role[mine]], batch.payload[mine]
            if isinstance(group, Response):
                size = (self.answers + 1) ** 2
                due = self._due(batch.window[mine], group)
                places = at[:, None] + np.arange(group.layers) * size + self._cells(rest, group)
                cells.append(places[due])
            elif isinstance(group, Tilted) or group.oracle == "grr":
                cells.append(at + _word(rest))
            else:
                report, answer = np.nonzero(np.unpackbits(rest, axis=1)[:, : self.answers])
                cells.append(at[report] + answer)
        np.add.at(matrix.reshape(-1), np.concatenate(cells), 1)

    def _by_group(self, batch: Batch, among: Mask) -> dict[Group, Integers]:
        """The positions of each group's reports among these; the roles of a group follow each other."""
        found: dict[Group, Integers] = {}
        for group in dict.fromkeys(self.groups):
            roles = [role for role, each in enumerate(self.groups) if each == group]
            mine = np.flatnonzero(among & (batch.role >= roles[0]) & (batch.role <= roles[-1]))
            if len(mine):
                found[group] = mine
        return found

    @staticmethod
    def _cells(payload: NDArray[np.uint8], group: Response) -> Integers:
        pairs = payload[:, : 2 * group.layers].astype(np.int64).reshape(-1, group.layers, 2)
        return pairs[:, :, 0] << 8 | pairs[:, :, 1]

    @staticmethod
    def _due(window: Integers, group: Response) -> Mask:
        widths = group.branching ** np.arange(group.layers)
        return np.asarray((window[:, None] + 1) % widths == 0)


def _word(payload: NDArray[np.uint8]) -> Integers:
    return payload[:, 0].astype(np.int64) << 8 | payload[:, 1]


def report_from_json(text: str) -> bytes:
    """The bytes of a report that was written by report_to_json."""
    try:
        data = json.loads(text)
        flags = (FIRST if data["first"] is True else 0) | (IDLE if data["idle"] is True else 0)
        survey, token, payload = (bytes.fromhex(data[name]) for name in ("survey", "token", "payload"))
        return HEADER.pack(data["version"], flags, survey, data["role"], data["window"], token) + payload
    except (KeyError, TypeError, ValueError, struct.error):
        raise ReporterError("this is not a report") from None
