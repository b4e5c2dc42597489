"""The groups of a survey, each a share of the people with one protocol, and the variances of their estimates.

Variances are per person: A reports out of a roster of R people estimate a count of all R with the variance
R (R / A * noise - known).  `known` corrects for sampling without replacement from the roster.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tidegauge.local.law import Sketch, TiltedLaw, sharpest_law
from tidegauge.local.reporter import ONE, acceptance, map_rows, map_signals, responses_of_a_life

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidegauge.local.reporter import GroupJson

    Floats = NDArray[np.float64]

MAPS = ("coordinate", "sign", "pair")


@dataclass(frozen=True)
class Setting:
    """What a survey asks of any protocol: its size and its privacy."""

    windows: int
    changes: int
    """Most changes of one person's answer, the first included."""
    epsilon: Fraction
    """Privacy loss of all reports of one person together."""
    answers: int
    """How many answers there are; "not there" is not one of them."""

    def each(self, group: GroupJson) -> Fraction:
        """The privacy loss of one response of a group, given as the survey's JSON has it."""
        return self.epsilon / responses_of_a_life(
            group, windows=self.windows, changes=self.changes, answers=self.answers
        )

    def moving_share(self, nodes: int) -> float:
        """Share of people who change in one of so many nodes.

        Assumes that everybody joins in the first window and spreads the other changes evenly.
        """
        return min(1.0, (self.changes - 1) / max(nodes - 1, 1)) if self.windows > 1 else 0.0


@dataclass(frozen=True)
class Snapshot:
    """Report the answer once, in a public random window, with the whole epsilon."""

    share: int
    oracle: str
    kind: ClassVar[str] = "snapshot"

    def to_dict(self) -> GroupJson:
        """As the survey's JSON has it."""
        return {"kind": self.kind, "share": self.share, "oracle": self.oracle}


@dataclass(frozen=True)
class Memoized:
    """Report the answer in every window through a permanent response; reveals when it changes or returns."""

    share: int
    oracle: str
    kind: ClassVar[str] = "memoized"

    def to_dict(self) -> GroupJson:
        """As the survey's JSON has it."""
        return {"kind": self.kind, "share": self.share, "oracle": self.oracle}


@dataclass(frozen=True)
class Response:
    """The paper's randomized response about the change in every window of every layer."""

    share: int
    branching: int
    layers: int
    kind: ClassVar[str] = "response"

    def to_dict(self) -> GroupJson:
        """As the survey's JSON has it."""
        return {"kind": self.kind, "share": self.share, "branching": self.branching, "layers": self.layers}


@dataclass(frozen=True)
class Tilted:
    """The tilted randomizer (T11) on windows of width 2^level."""

    share: int
    level: int
    map: str
    law: TiltedLaw
    kind: ClassVar[str] = "tilted"

    def to_dict(self) -> GroupJson:
        """As the survey's JSON has it; nu in units of 2^-64."""
        return {
            "kind": self.kind,
            "share": self.share,
            "level": self.level,
            "map": self.map,
            "changes": self.law.changes,
            "nu": str(int(self.law.nu * ONE)),
            "good": [list(pair) for pair in sorted(self.law.good)],
        }


Group = Snapshot | Memoized | Response | Tilted


def group_from_dict(data: GroupJson, *, epsilon: Fraction, answers: int) -> Group:
    """The group that to_dict wrote."""
    share = int(data["share"])
    if data["kind"] == "tilted":
        law = TiltedLaw(
            changes=data["changes"],
            epsilon=epsilon,
            signals=map_signals(data, answers),
            nu=Fraction(int(data["nu"]), ONE),
            good=frozenset((i, j) for i, j in data["good"]),
        )
        return Tilted(share=share, level=data["level"], map=data["map"], law=law)
    if data["kind"] == "response":
        return Response(share=share, branching=data["branching"], layers=data["layers"])
    kind = Memoized if data["kind"] == "memoized" else Snapshot
    return kind(share=share, oracle=data["oracle"])


@dataclass(frozen=True)
class Variance:
    """Per person: noise divided by the share of people who report, minus known."""

    noise: float
    known: float

    def of(self, share: float) -> float:
        """The variance when this share of the people report."""
        return max(self.noise / share - self.known, 1e-12)


# -- frequency oracles ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Oracle:
    """A randomized response to the answer: each output bit is 1 with probability p if true and q if not."""

    name: str
    p: float
    q: float

    def variance(self, present: float) -> Variance:
        """The variance of the estimated count of an answer that a share `present` of the people give."""
        output = present * self.p + (1 - present) * self.q
        return Variance(output * (1 - output) / (self.p - self.q) ** 2, present * (1 - present))


def oracle(name: str, *, epsilon: Fraction, answers: int) -> Oracle:
    """Generalized randomized response over the answers and "not there", or optimized unary encoding."""
    accept = acceptance(epsilon)
    if name == "grr":
        total = ONE + answers * accept
        return Oracle(name, ONE / total, accept / total)
    return Oracle(name, 0.5, accept / (ONE + accept))


def best_oracle(*, epsilon: Fraction, answers: int) -> Oracle:
    """The oracle of least variance for an average answer."""
    both = (oracle(name, epsilon=epsilon, answers=answers) for name in ("grr", "oue"))
    return min(both, key=lambda each: each.variance(1 / answers).noise)


# -- signal maps ---------------------------------------------------------------------------------------


def sign(row: NDArray[np.int64], symbol: NDArray[np.int64]) -> Floats:
    """Entry of a Hadamard matrix without its constant row: 1 or -1; the last symbol is "not there"."""
    return np.asarray(1.0 - 2.0 * (np.bitwise_count((row + 1) & symbol) & 1))


def decoder(name: str, answers: int, gap: float) -> Floats:
    """(rows, answers, signals): weights that turn output frequencies into the change of the histogram.

    The change is the sum of decoder @ output frequencies over the rows.
    """
    z, variants = answers, map_rows({"map": name}, answers)
    if name == "pair":
        before, after = changes_of_pairs(z)
        symbols = np.arange(z)[:, None]
        return np.asarray([(after == symbols) * 1.0 - (before == symbols)]) / gap
    if name == "coordinate":
        weights = np.eye(z)
    else:
        weights = 2 / (variants + 1) * sign(np.arange(variants)[:, None], np.arange(z)[None, :])
    return np.asarray(np.stack([weights, -weights], axis=-1) / gap)


def changes_of_pairs(answers: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Before and after of every signal of the pair map."""
    before, rest = np.divmod(np.arange(answers * (answers + 1)), answers)
    return before, rest + (rest >= before)


def tilted_variance(
    name: str, answers: int, law: Sketch | TiltedLaw, *, moving: float, joining: bool
) -> tuple[Floats, float]:
    """(noise, known) of one answer's change.

    moving:  the share of the people who change.
    joining: all have just joined.
    """
    z = answers
    nu, gap, match, mismatch = (
        np.asarray(x, dtype=np.float64) for x in (law.nu, law.gap, law.match, law.mismatch)
    )
    if joining:
        moving, touched, mean = 1.0, 1 / z, 1 / z
    else:
        touched, mean = 2 / z, 0.0
    known = moving * touched - mean**2
    if name == "pair":
        d = z * (z + 1)
        spoken = match * touched + mismatch * (2 * z - touched) / (d - 1)
        return (2 * z * nu * (1 - moving) + moving * spoken) / gap**2 - mean**2, known
    variants = map_rows({"map": name}, z)
    if name == "coordinate":
        seen, scale, offset = moving * touched, float(z), mean**2
    else:
        seen = moving * (variants + 1) / 2 / variants
        scale = (2 * variants / (variants + 1)) ** 2
        offset = (variants + 1) / 4 / variants * (1 + 1 / z) if joining else 0.0
    return scale * (((1 - seen) * 2 * nu + seen * (match + mismatch)) / gap**2 - offset), known


def best_tilted(setting: Setting, *, level: int, only: str = "") -> Tilted:
    """The signal map (or the `only` one) and nu of least variance, averaged over the nodes of the level."""
    nodes, answers = setting.windows >> level, setting.answers
    allowed = min(setting.changes, nodes)
    moving = setting.moving_share(nodes)
    candidates = []
    for name in [only] if only else MAPS:

        def error(law: Sketch | TiltedLaw, name: str = name) -> Floats:
            later, _ = tilted_variance(name, answers, law, moving=moving, joining=False)
            first, _ = tilted_variance(name, answers, law, moving=1.0, joining=True)
            return first / nodes + later * (nodes - 1) / nodes

        law = sharpest_law(
            changes=allowed,
            epsilon=setting.epsilon,
            signals=map_signals({"map": name}, answers),
            variance=error,
        )
        candidates.append((float(error(law)), Tilted(share=1, level=level, map=name, law=law)))
    return min(candidates, key=lambda pair: pair[0])[1]
