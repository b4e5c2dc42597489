"""What a benchmark found: ratios, tables and charts, as text for a terminal and as JSON for `bench.all`.

A script prints its result with `say`.  With --json the last line of its output is the JSON of a Result.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

BETTER: Final = {"lower": "at most", "higher": "at least"}


@dataclass(frozen=True)
class Ratio:
    """A number of ours over that of a peer or of a limit, measured in the same run."""

    what: str
    ours: float
    against: str
    theirs: float
    unit: str = ""
    wanted: float | None = None
    """The ratio to reach, if there is one."""
    better: str = "lower"

    def __post_init__(self) -> None:
        if self.better not in BETTER:
            raise ValueError(f"better is one of {', '.join(BETTER)}")

    @property
    def value(self) -> float:
        return self.ours / self.theirs

    @property
    def reached(self) -> bool:
        """Whether the ratio is as wanted, up to a part in ten thousand."""
        if self.wanted is None:
            return True
        if self.better == "lower":
            return self.value <= self.wanted * (1 + 1e-4)
        return self.value >= self.wanted * (1 - 1e-4)

    def cells(self) -> list[str]:
        unit = f" {self.unit}" if self.unit else ""
        wanted = "" if self.wanted is None else f"{BETTER[self.better]} {number(self.wanted)}"
        missed = "" if self.reached else " **missed**"
        ours, theirs = (f"{number(one)}{unit}" for one in (self.ours, self.theirs))
        return [self.what, ours, self.against, theirs, number(self.value), f"{wanted}{missed}"]


@dataclass(frozen=True)
class Table:
    """Rows of text below a head."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [
            f"| {' | '.join(self.head)} |",
            "|---" * len(self.head) + "|",
            *(f"| {' | '.join(row)} |" for row in self.rows),
        ]
        return "\n".join(([f"**{self.title}**", ""] if self.title else []) + lines)


@dataclass(frozen=True)
class Series:
    """A line of a chart."""

    label: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """Lines over two axes, or (with `bars`) one horizontal bar for each value."""

    title: str
    across: str
    up: str = ""
    lines: Sequence[Series] = ()
    bars: Sequence[tuple[str, float]] = ()
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Result:
    """Everything that one script measured."""

    title: str
    about: str
    """What was measured and how, in a few sentences."""
    ratios: Sequence[Ratio] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    absent: dict[str, str] = field(default_factory=dict)
    """Peers or parts that could not be run here, with the reason."""

    @property
    def reached(self) -> bool:
        return all(ratio.reached for ratio in self.ratios)

    @property
    def ratio_table(self) -> Table:
        return Table("", ["what", "ours", "against", "theirs", "ours / theirs", "wanted"],
                     [ratio.cells() for ratio in self.ratios])  # fmt: skip


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value == 0 or not abs(value) < float("inf"):
        return f"{value:g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.2e}"


def result_from(found: dict[str, Any]) -> Result:
    """A Result from its JSON; of any other object, a table of its names and values."""
    if "title" not in found:
        rows = [[name, str(round(one, 4) if isinstance(one, float) else one)] for name, one in found.items()]
        return Result("", "", tables=[Table("", ["what", "value"], rows)])
    return Result(
        title=found["title"],
        about=found["about"],
        ratios=[Ratio(**one) for one in found["ratios"]],
        tables=[Table(**one) for one in found["tables"]],
        charts=[
            Chart(**{
                **one,
                "lines": [Series(line["label"], [(x, y) for x, y in line["points"]])
                          for line in one["lines"]],
                "bars": [(label, value) for label, value in one["bars"]],
            })
            for one in found["charts"]
        ],
        absent=found["absent"],
    )  # fmt: skip


def markdown(found: Result) -> str:
    """Tables and reasons, without the charts."""
    parts = [found.about] if found.about else []
    if found.ratios:
        parts.append(found.ratio_table.markdown())
    parts += [table.markdown() for table in found.tables]
    parts += [f"Not run: {name}. {reason}" for name, reason in found.absent.items()]
    return "\n\n".join(parts)


def not_here(title: str, what: str, reason: str) -> Result:
    """The result of a script that cannot run on this machine."""
    return Result(title, "", absent={what: reason})


def options(about: str | None, *, quick: str | None = None) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark takes.  `quick`: what --quick leaves out."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    return parser


def say(found: Result, *, as_json: bool) -> int:
    """Print a result; returns the exit code: 1 where a ratio is not as wanted."""
    print(json.dumps(asdict(found)) if as_json else f"# {found.title}\n\n{markdown(found)}", flush=True)
    return 0 if found.reached else 1


def put(text: str, name: str, table: str) -> str:
    """The page with this table between its marks."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
