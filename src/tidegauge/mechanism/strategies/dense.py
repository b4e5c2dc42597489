"""Measurements by a full, numerically optimised matrix, which is identified by a hash of its content.

The sensitivity is computed from the integers of the matrix each time the matrix is loaded.  The integers are
small, so inner products of columns are exact in double precision.
"""

from __future__ import annotations

import hashlib
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import inf, isqrt, nextafter, sqrt
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from tidegauge.errors import SpecError, StoreCorrupt
from tidegauge.mechanism.exposure import most_changes, over_cases, root_above, spread, stock_square
from tidegauge.mechanism.strategies import shapes
from tidegauge.mechanism.strategies.triangular import Triangular
from tidegauge.mechanism.strategy import StrategyKind, says
from tidegauge.theory.accounting.precise import above
from tidegauge.theory.paths.dense import dense_groups, dense_paths
from tidegauge.theory.paths.gram import gram_paths
from tidegauge.theory.paths.path import ON_OFF
from tidegauge.theory.paths.rounding import U, above_product

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidegauge.mechanism.exposure import Flow
    from tidegauge.mechanism.search.task import Search
    from tidegauge.mechanism.strategy import Exposure, Recorded
    from tidegauge.theory.paths.path import BinCase, Domain
    from tidegauge.theory.sensitivity import Sensitivity

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int32]

MOST_BINS: Final = 1024
"""Most products of two elements that add up without rounding."""
_CHANGED: Final = "the optimised matrix of the committed plan was changed; nothing was read or spent"


@dataclass(frozen=True)
class Dense(Triangular):
    """A full matrix, identified by the digest of its content."""

    name: ClassVar[str] = "dense"

    digest: str
    first: int
    entries: Integers = field(repr=False, compare=False)

    @classmethod
    def of(cls, entries: NDArray[np.int64] | Integers, first: int) -> Dense:
        """The strategy with this matrix.  Raises SpecError if the matrix cannot be certified."""
        whole, most = np.array(entries), 1 << shapes.BITS
        if (
            whole.ndim != 2
            or whole.dtype.kind != "i"
            or not 0 < len(whole) == whole.shape[1] <= MOST_BINS
            or np.triu(whole, 1).any()
            or whole.max() > most
            or whole.min() < -most
        ):
            raise SpecError(
                f"the matrix must be lower-triangular, for at most {MOST_BINS} bins, of integers up to "
                f"2^{shapes.BITS}"
            )
        kept = whole.astype(np.int32)
        kept.flags.writeable = False
        return cls(_digest(kept, first), first, kept)

    @classmethod
    def unpacked(cls, text: str, *, digest: str, first: int) -> Dense:
        """The matrix that a committed plan stores.  Raises StoreCorrupt if it does not have this digest."""
        try:
            flat = np.frombuffer(zlib.decompress(b64decode(text, validate=True)), dtype=np.uint8)
            below = np.ascontiguousarray(flat.reshape(4, -1).T).view("<i4").ravel()
            bins = (isqrt(8 * len(below) + 1) - 1) // 2
            entries = np.zeros((bins, bins), dtype=np.int32)
            entries[np.tril_indices(bins)] = below
            found = cls.of(entries, first)
        except (ValueError, zlib.error, SpecError):
            raise StoreCorrupt(_CHANGED) from None
        if found.digest != digest:
            raise StoreCorrupt(_CHANGED)
        return found

    @cached_property
    def packed(self) -> str:
        """The matrix as text for a committed plan: its integers byte by byte, compressed."""
        below = self.entries[np.tril_indices(len(self.entries))].astype("<i4")
        return b64encode(zlib.compress(below.view(np.uint8).reshape(-1, 4).T.tobytes(), 9)).decode()

    @property
    def attachments(self) -> dict[str, str]:
        """The matrix as text, by its digest."""
        return {self.digest: self.packed}

    @property
    def parameters(self) -> dict[str, int | float | str]:
        """The number of bins, the digest, and the first bin."""
        return {"bins": len(self.entries) + self.first, "digest": self.digest, "first": self.first}

    @property
    def matrix(self) -> Integers:
        """On changes, in units of 2^-20."""
        return self.entries

    @cached_property
    def gram(self) -> Floats:
        """Inner products of the columns; exact, because the integers are small."""
        exact = self.entries.astype(np.float64)
        return exact.T @ exact

    def sensitivity(self, exposure: Exposure) -> Sensitivity:
        """An upper bound for the rounded matrix; exact for at most two changes."""
        _, M = spread(exposure)
        most = int(self.gram.diagonal().max())

        def stock(case: BinCase) -> tuple[Fraction, Fraction]:
            square = stock_square(exposure, case, first=self.first, most=self._most)
            return self._both(square, 2 * most_changes(case, len(self.entries)) if exposure.grouped else 1)

        def flow(counts: Flow) -> tuple[Fraction, Fraction]:
            return self._both((M * counts.total) ** 2 * most, counts.total if exposure.grouped else 1)

        return over_cases(exposure, stock=stock, flow=flow)

    def _most(self, case: BinCase, domain: Domain) -> float:
        return most_energy(self.gram, case, domain)

    def _both(self, square: Fraction, groups: int) -> tuple[Fraction, Fraction]:
        """L1, bounded by L2 and the number of rows and groups, and squared L2."""
        return root_above(square * len(self.entries) * groups), square


def most_energy(gram: Floats, case: BinCase, domain: Domain = ON_OFF) -> float:
    """The best bound of the squared L2 sensitivity to a unit whose largest value is 1.  [T14]"""
    bound, (changes, _) = gram_paths(gram, case=case, domain=domain), case.within(len(gram))
    if changes <= 2 and domain == ON_OFF:
        return bound
    most, apart = max(domain.high, domain.low), above(Fraction(domain.high) + Fraction(domain.low))
    if domain.groups > 1 or apart > most:  # values above and below 0 are bounded as two groups
        groups = dense_groups(gram, case=case, loaded=domain.loaded)
        bound = min(bound, above_product(most, apart, groups))
    if domain.groups > 1:
        return bound
    path = most * _root(dense_paths(gram, case=case))
    if apart > most:  # from 0 to one end, then between both ends; a loaded unit only between both ends
        later = case.after_load(len(gram))[0] if domain.loaded else 0
        fewer, back = (
            _root(dense_paths(gram, case=case._replace(changes=count))) if count else 0.0
            for count in (changes - 1, later)
        )
        path = max(path + (apart - most) * fewer, apart * back)
    return min(bound, above_product(path, path) * (1 + 32 * U))  # covers a few roundings


def _root(square: float) -> float:
    return nextafter(sqrt(square), inf)


def _digest(entries: Integers, first: int) -> str:
    content = np.ascontiguousarray(entries, dtype="<i4").tobytes()
    return hashlib.sha256(f"{len(entries)} {first}\n".encode() + content).hexdigest()


def _candidates(search: Search) -> Iterator[Dense]:
    from tidegauge.mechanism.search import optimum  # noqa: PLC0415  (it builds dense strategies)

    problem = None if search.pure else optimum.dense_problem(search)
    found = None if problem is None else optimum.offered(problem, search.cache, ask=search.ask)
    if found is not None:
        yield found


def _asked(search: Search) -> bool:
    from tidegauge.mechanism.search import optimum  # noqa: PLC0415  (it builds dense strategies)

    return not search.pure and optimum.dense_problem(search) is not None


def _read(recorded: Recorded) -> Dense:
    digest = str(recorded.parameters.get("digest", ""))
    if digest not in recorded.attachments:
        raise SpecError(
            "a dense strategy has no parameters that can be declared: its matrix is the result of a search"
        )
    first = int(recorded.parameters["first"])
    return Dense.unpacked(recorded.attachments[digest], digest=digest, first=first)


KIND: Final = StrategyKind(
    Dense,
    says("was optimised numerically for how often a unit may change here"),
    _candidates,
    fixed={"bins": "bins", "first": "base"},
    read=_read,
    valid="an optimum is found for up to 1,024 windows with Gaussian noise, where a unit changes at most "
    "16 times or within a short time",
    asked=_asked,
)
