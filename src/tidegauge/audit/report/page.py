"""The report of an audit as one HTML file that needs nothing else."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from tidegauge.audit.audit import ALPHA
from tidegauge.audit.report.text import MU, claim

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidegauge.audit.audit import Report
    from tidegauge.audit.noise.canaries import Canaries

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #1b1f24; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #d0d7de; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.good { color: #116329; } .bad { color: #a40e26; font-weight: 600; }
.verdict { padding: .8rem 1rem; border-radius: .4rem; background: #dafbe1; }
.verdict.failed { background: #ffebe9; }
summary { cursor: pointer; margin: .5rem 0; }
svg { width: 100%; height: auto; } code { font-size: .85em; }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3; } th, td { border-color: #30363d; }
  .verdict { background: #12261e; } .verdict.failed { background: #2d1214; }
  .good { color: #56d364; } .bad { color: #ff7b72; }
}
"""


_LIMITS = (
    "<h2>What this does not show</h2>",
    "<ul><li>That the theory is right: its functions are compared with their definitions in small worlds "
    "only; the proofs are in the documentation.</li>"
    "<li>That the source delivers every change, or that the declared unit is the right one to protect.</li>"
    "<li>That timing reveals nothing: how long ticks take is not compared.</li></ul>",
)


def as_html(report: Report) -> str:
    """The whole page."""
    passed = report.passed
    verdict = (
        "Passed. Nothing contradicts what the plan promises. "
        f"Correct code fails with a chance below {ALPHA:g}."
        if passed
        else "Failed. The installed code does not keep what the plan promises, or a check is broken."
    )
    kind = "committed plan" if report.committed else "plan that is not committed yet"
    body = [
        "<h1>Audit of a Tidegauge plan</h1>",
        f"<p class='verdict{'' if passed else ' failed'}'>{verdict}</p>",
        *(f"<p class='bad'>{escape(one)}</p>" for one in report.failures),
        f"<p>{escape(claim(report))}. Protects {escape(report.protects)}</p>",
        *_summary(report),
        f"<p>The {kind} <code>{report.plan}</code>, audited in {report.seconds:.0f} seconds with "
        f"{escape(', '.join(f'{name} {one}' for name, one in report.versions.items()))}; invented rows with "
        f"seed {report.seed}. The audit works on invented rows in a folder of its own. It reads neither the "
        "source nor any row of the store, and spends nothing.</p>",
        *_replay(report),
        *_canaries(report),
        *_checks(report),
        *_controls(report),
        *_local(report),
        *(f"<p>Note: {escape(note)}</p>" for note in report.notes),
        *_LIMITS,
    ]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Audit: {'passed' if passed else 'failed'}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if n in numbers else ''}>{one}</{tag}>" for n, one in enumerate(row)
        )

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{lines}</tbody></table>"


def _mark(good: bool, yes: str = "passed", no: str = "FAILED") -> str:
    return f"<span class={'good' if good else 'bad'}>{yes if good else no}</span>"


def _folded(title: str, table: str, *, shown: bool) -> str:
    """A long table that a reader opens; `shown`: it is open."""
    return f"<details{' open' if shown else ''}><summary>{title}</summary>{table}</details>"


def _summary(report: Report) -> list[str]:
    """Each part's question and answer in one line."""
    rows = []
    if report.replayed.pairs:
        cost = f"the worst of {report.replayed.pairs} pairs costs {report.replayed.worst_ratio:.2%} of it"
        rows.append(("Can one unit cost more than the ledger reserves?", cost))
    if (best := report.best) is not None:
        found = best.bounds.exact if report.measure == "epsilon" else best.bounds.shift
        learned = f"mu is at least {found:.3f} (95 % confidence); at most {best.claimed:.3f} is claimed"
        rows.append((f"What do readings of {escape(best.release)} reveal?", learned))
        draws = sum(one.laws.draws for one in report.canaries)
        chances = [chance for one in report.canaries for chance in one.laws.chances.values()]
        drawn = f"{draws:,} draws passed {len(chances)} tests (least p: {min(chances, default=1.0):.2g})"
        rows.append(("Is the noise drawn as the plan says?", drawn))
    if report.checks:
        good = sum(not found for found in report.checks.values())
        rows.append(("Does all the installed code work?", f"{good} of {len(report.checks)} checks passed"))
    if report.controls:
        caught = f"{report.caught} of {len(report.controls)} seeded bugs were caught"
        rows.append(("Would the audit notice a bug?", caught))
    if report.local:
        follow = sum(not one.found for one in report.local)
        rows.append(
            ("Do reports of local surveys have their probabilities?", f"{follow} of {len(report.local)} do")
        )
    return [_table(("question", "answer"), rows)] if rows else []


def _replay(report: Report) -> list[str]:
    replayed = report.replayed
    rows = [
        (escape(name), f"{ratio:.6f}", "all of it, as the theory says" if name in replayed.tight else "")
        for name, ratio in replayed.releases.items()
    ]
    return [
        "<h2>Replay</h2>",
        f"<p>{replayed.pairs} pairs of worlds that differ by one unit went through a source in memory, SQL, "
        "enforcement and encoder, with labels in place of noise, so that each exact value and each draw can "
        "be read off. "
        "The loss of each pair is computed from the exact distance and the noise that was asked for. It must "
        "be at most what the ledger reserves. Times, groups, ticks, messages, files and the number of draws "
        f"must be equal. The largest loss was {replayed.worst_ratio:.6f} of its reservation.</p>",
        _table(("release", "loss of the worst path / reserved", ""), rows, numbers=[1]),
    ]


def _canaries(report: Report) -> list[str]:
    if not report.canaries:
        return []
    pure = report.measure == "epsilon"
    rows = [
        (
            escape(one.release),
            f"{one.cells:,}",
            f"{one.bins:,}",
            f"{one.claimed:.4f}",
            "" if pure else f"{one.path:.4f}",
            "" if pure else f"{one.bounds.shift:.4f}",
            f"{one.bounds.exact:.4f}",
            f"{one.bounds.epsilon:.4f}",
        )
        for one in report.canaries
    ]
    head = (
        "release",
        "cells a world",
        "bins",
        "mu claimed",
        "mu of the path",
        "mu, shift",
        "mu, exact",
        "epsilon, exact",
    )
    found = [
        "<h2>Canaries</h2>",
        "<p>One real gauge with the plan's strategy and noise ran over many cells. A unit on its worst path "
        "was in half of them. A matched filter over the published values distinguishes the two halves. "
        f"{MU} The "
        "last three columns are lower bounds of the real loss at 95 % confidence: by the studentised shift "
        "(for Gaussian noise), and by Clopper-Pearson bounds at a threshold fixed before, without any "
        "assumption. One in twenty may lie above the truth; the audit fails where a bound at its own "
        "confidence lies above the claim.</p>",
        _table(head, rows, numbers=range(1, 8)),
        *(_histogram(one) for one in report.canaries),
        "<h2>Noise</h2>",
        "<p>The noise that these runs really drew, against the distribution that the plan names.</p>",
    ]
    laws = [
        (escape(one.release), escape(_positive(name)), f"{chance:.3g}")
        for one in report.canaries
        for name, chance in one.laws.chances.items()
    ]
    return [
        *found,
        _folded(f"{len(laws)} tests", _table(("release", "test", "p"), laws, numbers=[2]), shown=False),
    ]


def _positive(name: str) -> str:
    """The test by what it asks, not by what it would find."""
    return (
        name.replace("the drawn noise does not have its distribution", "distribution, by chi-square")
        .replace("draws that follow each other are not independent", "independence of successive draws")
        .replace("draws of different calls are not independent", "independence between calls")
    )


def _histogram(one: Canaries) -> str:
    """Both worlds' statistics as a drawing."""
    zero, moved = (np.array(part) for part in one.statistics)
    low, high = float(min(zero.min(), moved.min())), float(max(zero.max(), moved.max()))
    if not high > low:
        return ""
    edges = np.linspace(low, high, 41)
    counts = [np.histogram(part, edges)[0] for part in (zero, moved)]
    top = max(int(each.max()) for each in counts) or 1
    bars = []
    for each, colour in zip(counts, ("#8c959f", "#0969da"), strict=True):
        for n, count in enumerate(each.tolist()):
            if count:
                height = 140 * count / top
                bars.append(
                    f"<rect x='{10 + 17 * n}' y='{150 - height:.1f}' width='15' height='{height:.1f}' "
                    f"fill='{colour}' fill-opacity='.6'/>"
                )
    return (
        f"<figure><svg viewBox='0 0 700 160' role='img' aria-label='{escape(one.release)}'>"
        + "".join(bars)
        + "</svg><figcaption>Filtered values of "
        f"<code>{escape(one.release)}</code>: grey without, blue with a canary.</figcaption></figure>"
    )


def _checks(report: Report) -> list[str]:
    rows = [(escape(name), _mark(not found)) for name, found in report.checks.items()]
    failed = sum(map(bool, report.checks.values()))
    return [
        "<h2>Installed code</h2>",
        "<p>Small gauges whose sums and losses were worked out by hand; random gauges with the sums of an "
        "oracle in plain Python; readers of every kind of source; theorems against their definitions; "
        "readings, stores, the private choice and surveys.</p>",
        _folded(
            f"{len(rows) - failed} of {len(rows)} checks passed",
            _table(("check", ""), rows),
            shown=failed > 0,
        ),
    ]


def _controls(report: Report) -> list[str]:
    rows = [
        (escape(name), _mark(caught, "caught", "MISSED"), escape(why))
        for name, (caught, why) in report.controls.items()
    ]
    return [
        "<h2>Positive controls</h2>",
        "<p>Known bugs, each seeded alone, in a process that ends with the audit.</p>",
        _folded(
            f"{report.caught} of {len(report.controls)} were caught",
            _table(("bug", "", "what the audit said"), rows),
            shown=report.caught < len(report.controls),
        ),
    ]


def _local(report: Report) -> list[str]:
    if not report.local:
        return []
    rows = [
        (
            escape(one.protocol),
            one.reporter,
            f"{one.reports:,}",
            f"{one.epsilon:g}",
            f"{one.loss:.4f}",
            f"{one.epsilon_lower:.4f}",
            _mark(not one.found),
        )
        for one in report.local
    ]
    head = ("protocol", "reporter", "people", "epsilon", "listed loss", "epsilon, lower bound", "")
    return [
        "<h2>Local surveys</h2>",
        "<p>Every sequence of reports of small surveys was listed with its probability. The listed loss is "
        "the largest log-ratio between two inputs. Reports of new reporters must have these "
        "probabilities.</p>",
        _table(head, rows, numbers=range(2, 6)),
    ]
