"""The collector: counts reports, each once and in any order, and estimates the histogram of every window."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidegauge.errors import LocalError
from tidegauge.local.decode import Histogram, histogram, net_changes
from tidegauge.local.reporter import HEADER, VERSION
from tidegauge.local.store import CollectorStore
from tidegauge.local.survey import Survey
from tidegauge.local.tally import Layout

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tidegauge.local.store import Tokens
    from tidegauge.local.tally import Batch

REFUSALS: Final = ("malformed", "other_survey", "late", "duplicate")


@dataclass(frozen=True)
class Receipt:
    """How many of the reports that were added were accepted or refused, and why; each counts once."""

    accepted: int = 0
    malformed: int = 0
    other_survey: int = 0
    late: int = 0
    duplicate: int = 0

    def __add__(self, other: Receipt) -> Receipt:
        return Receipt(**{name: value + getattr(other, name) for name, value in vars(self).items()})


@dataclass
class _Seen:
    """The tokens of one window, as sorted runs of falling length: cheap to extend and to search."""

    runs: list[Tokens] = field(default_factory=list)

    def among(self, tokens: Tokens) -> NDArray[np.bool_]:
        """Which of these sorted tokens are already here."""
        found = np.zeros(len(tokens), dtype=np.bool_)
        for run in self.runs:
            at = np.minimum(np.searchsorted(run, tokens), len(run) - 1)
            found |= run[at] == tokens
        return found

    def add(self, tokens: Tokens) -> None:
        """Take in sorted tokens that are not here yet."""
        self.runs.append(tokens)
        while len(self.runs) > 1 and len(self.runs[-2]) <= 2 * len(self.runs[-1]):
            last, other = self.runs.pop(), self.runs.pop()
            self.runs.append(np.sort(np.concatenate([other, last]), kind="stable"))


class Collector:
    """Adds up the reports of a survey.

    path: a file that holds everything, so that a collector that was killed continues where it stopped;
          None: everything is held in memory.
    A report counts once: its token identifies the pair of reporter and window, and neither the person nor the
    reporter's other windows.
    """

    def __init__(self, survey: Survey, *, path: str | os.PathLike[str] | None = None) -> None:
        self.survey, self._layout = survey, Layout(survey)
        self.tally: NDArray[np.int64] = np.zeros((survey.windows, self._layout.width), dtype=np.int64)
        self.refused = Counter(dict.fromkeys(REFUSALS, 0))
        self.closed = 0  # windows below this take no more reports
        self._seen: dict[int, _Seen] = {}
        self._store: CollectorStore | None = None
        if path is not None:
            self._store = CollectorStore(path)
            self._store.begin(survey.to_json())
            self._restore(self._store)

    @property
    def report_size(self) -> int:
        """The size of a report of this survey in bytes."""
        return self._layout.size

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Collector:
        """A collector in memory with the contents of a file, to read or to merge; the file is not written."""
        with closing(CollectorStore(path, writing=False)) as store:
            collector = cls(Survey.from_json(store.survey()))
            collector._restore(store)
        return collector

    def _restore(self, store: CollectorStore) -> None:
        for window, counts in store.rows():
            self.tally[window] = counts
        for window, tokens in store.tokens():
            self._seen.setdefault(window, _Seen()).add(tokens)
        self.refused.update(store.refused())
        self.closed = store.closed()

    def close(self) -> None:
        """Close the file, so that another process can open it."""
        if self._store is not None:
            self._store.close()

    def add(self, reports: bytes | Iterable[bytes]) -> Receipt:
        """Count reports, given one by one or concatenated; refusals are counted by reason."""
        size = self._layout.size
        if isinstance(reports, bytes | bytearray | memoryview):
            blob, odd = bytes(reports), []
            if len(blob) % size:
                whole = len(blob) // size * size
                blob, odd = blob[:whole], [blob[whole:]]
        else:
            listed = [bytes(report) for report in reports]
            odd = [report for report in listed if len(report) != size]
            blob = b"".join(report for report in listed if len(report) == size) if odd else b"".join(listed)
        batch, other, malformed = self._layout.read(blob)
        foreign = sum(self._is_foreign(report) for report in odd)
        late = batch.window < self.closed
        fresh, tokens, duplicates = self._fresh(batch.take(~late) if late.any() else batch)
        receipt = Receipt(
            accepted=len(fresh),
            malformed=malformed + len(odd) - foreign,
            other_survey=other + foreign,
            late=int(late.sum()),
            duplicate=duplicates,
        )
        windows = sorted(tokens)
        counts = np.zeros((len(windows), self._layout.width), dtype=np.int64)
        self._layout.count(counts, fresh, np.searchsorted(windows, fresh.window))
        self._commit(
            dict(zip(windows, counts, strict=True)),
            tokens,
            Counter({r: getattr(receipt, r) for r in REFUSALS}),
        )
        return receipt

    def _is_foreign(self, report: bytes) -> bool:
        """Whether a report of the wrong length belongs to another survey."""
        if len(report) < HEADER.size or report[0] != VERSION:
            return False
        return bool(HEADER.unpack_from(report)[2] != self.survey.spec.hash)

    def _fresh(self, batch: Batch) -> tuple[Batch, dict[int, Tokens], int]:
        """The reports with a new token, their tokens by window, and the number of duplicates."""
        order = np.lexsort((batch.token, batch.window)) if len(batch) else np.zeros(0, dtype=np.int64)
        window, token = batch.window[order], batch.token[order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (window[1:] != window[:-1]) | (token[1:] != token[:-1])
        tokens = {}
        for begin, end in pairwise(
            np.flatnonzero(np.diff(window, prepend=-1, append=-1)) if len(window) else ()
        ):
            here = int(window[begin])
            if here in self._seen:
                new[begin:end] &= ~self._seen[here].among(token[begin:end])
            tokens[here] = token[begin:end][new[begin:end]]
        fresh = batch if new.all() else batch.take(np.sort(order[new]))
        return fresh, {here: found for here, found in tokens.items() if len(found)}, int((~new).sum())

    def _commit(
        self, counts: dict[int, NDArray[np.int64]], tokens: dict[int, Tokens], refused: Counter[str]
    ) -> None:
        """Write to the file, then to memory: if writing fails, nothing has changed."""
        rows = {window: self.tally[window] + added for window, added in counts.items()}
        if self._store is not None:
            self._store.save(rows=rows, tokens=tokens, refused=self.refused + refused, closed=self.closed)
        for window, row in rows.items():
            self.tally[window] = row
        for window, found in tokens.items():
            self._seen.setdefault(window, _Seen()).add(found)
        self.refused.update(refused)

    def close_through(self, window: int) -> None:
        """Accept no more reports for the windows up to this one: they are late, and their tokens are deleted.

        Raises LocalError where the survey has no such window.
        """
        if not 0 <= window < self.survey.windows:
            raise LocalError(
                f"the survey has windows 0 to {self.survey.windows - 1}; none was closed. Name one of them"
            )
        self.closed = max(self.closed, window + 1)
        for each in [seen for seen in self._seen if seen < self.closed]:
            del self._seen[each]
        if self._store is not None:
            self._store.save(rows={}, tokens={}, refused=self.refused, closed=self.closed)

    def merge(self, other: Collector) -> None:
        """Add the counts of another collector of the same survey.

        Raises LocalError if a report may be in both, or if the surveys differ; then nothing is merged.
        """
        if other.survey != self.survey:
            raise LocalError(
                "the other collector is of another survey; nothing was merged. "
                "Merge collectors of one survey.json only"
            )
        tokens = {window: np.sort(np.concatenate(seen.runs)) for window, seen in other._seen.items()}
        twice = any(self._seen[w].among(found).any() for w, found in tokens.items() if w in self._seen)
        unsure = self.tally[: max(self.closed, other.closed)].any(axis=1) & other.tally[
            : max(self.closed, other.closed)
        ].any(axis=1)
        if twice or unsure.any():
            raise LocalError(
                "both collectors may have counted the same reports (in a closed window there are no tokens "
                "left to compare); nothing was merged. Send every reporter to one collector, and merge "
                "before closing"
            )
        rows = {int(window): other.tally[window] for window in np.flatnonzero(other.tally.any(axis=1))}
        self.closed = max(self.closed, other.closed)
        self._commit(rows, tokens, other.refused)

    def histogram(self) -> Histogram:
        """Estimated counts with their whole covariance, as arrays."""
        return histogram(self.survey, self._layout, self.tally)

    def estimate(self, *, simplex: bool = False) -> pa.Table:
        """Window, answer, value and stderr, for every window and answer; null where nothing was reported.

        value estimates how many of the people who took part so far gave the answer at the end of the window.
        It is unbiased, so it can be below 0.  simplex=True returns the nearest possible counts, with bias.
        """
        found = self.histogram()
        return self._table(found, found.on_simplex() if simplex else found.value)

    def changes(self) -> pa.Table:
        """The same columns for the net change in each single window."""
        found = net_changes(self.survey, self._layout, self.tally)
        return self._table(found, found.value)

    def _table(self, found: Histogram, value: NDArray[np.float64]) -> pa.Table:
        windows, answers = value.shape
        return pa.table(
            {
                "window": np.repeat(np.arange(windows), answers),
                "answer": list(self.survey.answers) * windows,
                "value": pa.array(value.reshape(-1), from_pandas=True),
                "stderr": pa.array(found.stderr.reshape(-1), from_pandas=True),
            }
        )

    def covariance(self, window: int) -> NDArray[np.float64]:
        """The covariance of the answers' estimates in a window."""
        return np.asarray(self.histogram().covariance[window])
