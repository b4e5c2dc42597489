"""Weight and time of pages: 50 releases with 20 groups and two years of daily readings in one public file.

python -m bench.pages
"""

from __future__ import annotations

import gzip
import statistics
import sys
import tempfile
import time
from math import sin
from pathlib import Path
from typing import TYPE_CHECKING

from bench.result import Ratio, Result, Table, options, say
from tidegauge.model.quantity import instant
from tidegauge.model.tick import Seal
from tidegauge.publish import pages
from tidegauge.publish.batch import Batch
from tidegauge.publish.public.reader import PublicFile
from tidegauge.publish.public.values import About, Document, Guarantee, PublicReading, ReleaseInfo
from tidegauge.publish.public.writer import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RELEASES, GROUPS, DAYS = 50, 20, 730
LIMITS = {"overview": 300, "release": 150}
"""Kilobytes that a page may weigh."""


def release(number: int) -> ReleaseInfo:
    names = tuple(f"region {group:02}" for group in range(GROUPS))
    return ReleaseInfo(
        name=f"release_{number:02}",
        of=None,
        sql="SELECT region, COUNT(*) FROM people GROUP BY region",
        aggregate="count",
        what="running value",
        unit="rows",
        groups=(("region", names),),
        cells=tuple({"region": name} for name in names),
        start=instant("2024-01-01"),
        every="1 day",
        window=None,
        count=DAYS,
        level=True,
        never_negative=True,
        strategy="toeplitz",
        parameters={"size": DAYS},
        noise="discrete Gaussian",
        noise_scale=31.2,
        folds=8,
        loss=0.02,
        half_width_worst=48.3,
        half_width_mean=44.1,
        adaptive=True,
        promise="zero-concentrated (rho)",
    )


def readings(infos: tuple[ReleaseInfo, ...]) -> Iterator[PublicReading]:
    for at, info in enumerate(infos):
        for day in range(DAYS):
            time_, spread = info.time_of(day), (day * 7919) % 97 / 2
            for cell, group in enumerate(info.cells):
                value = 150.0 * (cell + 1) + 40 * sin(day / 40 + cell + at) + spread
                numbers = (value, 24.6, value - 48.3, value + 48.3, value - 16.6, value + 16.6)
                yield PublicReading(info.name, day, cell, time_, group, *numbers)


def large(path: Path, releases: int) -> None:
    """The public file."""
    infos = tuple(release(number) for number in range(releases))
    guarantee = Guarantee(
        plan="0" * 64, epsilon=2.0, delta=1e-6, rho=None, measure="rho", total=0.07, reserved=0.07,
        epsilon_at=2.0, delta_at=1e-6, table="people", unit=None, max_rows=None, constraint={"at_most": 8},
        protects="one row", sentence="Everything published together reveals little about any one row.",
    )  # fmt: skip
    document = Document(About(title="Invented people"), guarantee, infos, ())
    write(path, Batch("key", tuple(readings(infos)), document, (Seal(1, None, "5" * 64),)))


def timed(work: Callable[[], str], times: int) -> tuple[str, list[float]]:
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        text = work()
        spent.append(1000 * (time.perf_counter() - begin))
    return text, spent


def result(releases: int) -> Result:
    """Weight and time of an overview and of one release."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "public.db"
        large(path, releases)
        size = path.stat().st_size / 1e6
        links = pages.served()

        def overview() -> str:
            with PublicFile(path) as public:
                return pages.overview(pages.whole_site(public), links)

        def page() -> str:
            with PublicFile(path) as public:
                found = pages.release_site(public, "release_07")
                assert found is not None
                return pages.release(*found, links)

        rows, ratios = [], []
        for name, work in (("overview", overview), ("release", page)):
            text, spent = timed(work, 7)
            weight, packed = len(text.encode()) / 1000, len(gzip.compress(text.encode())) / 1000
            ratios.append(Ratio(f"weight of {name}", weight, "the limit", LIMITS[name], "kB", 1.0))
            rows.append([name, f"{weight:.0f} kB", f"{packed:.0f} kB", f"{spent[0]:.0f} ms",
                         f"{statistics.median(spent[1:]):.0f} ms"])  # fmt: skip
    return Result(
        "Pages",
        f"A public file of {releases} releases with {GROUPS} groups and {DAYS} days each ({size:.0f} MB). A "
        "page that takes longer to load than its limit allows on a slow line is refused by a test.",
        ratios=ratios,
        tables=[Table("", ["page", "weight", "compressed", "first", "later"], rows)],
    )


def main() -> int:
    parser = options("Weight and time of pages.", quick="10 releases")
    asked = parser.parse_args()
    return say(result(10 if asked.quick else RELEASES), as_json=asked.json)


if __name__ == "__main__":
    sys.exit(main())
