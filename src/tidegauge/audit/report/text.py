"""The report of an audit as text, at most 80 columns wide."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from tidegauge.audit.audit import ALPHA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidegauge.audit.audit import Report

WIDTH = 80
MU = (
    "mu says how far apart the worlds with and without a unit are: 0, nothing can be learned; 1, as two "
    "normal laws whose means differ by one standard deviation."
)


def as_text(report: Report) -> str:
    """The whole report."""
    return "\n".join(line for part in (_head(report), _parts(report), _end(report)) for line in part)


def claim(report: Report) -> str:
    """What the plan claims, in one line."""
    shown = ", ".join(f"{name} = {value:.4g}" for name, value in report.claimed.items())
    period = "one unit in one term" if report.renews else "the gauge's whole lifetime"
    return f"Claimed for {period}: {shown}"


def _wrapped(text: str, *, indent: str = "") -> Iterator[str]:
    kept = text.replace(" = ", "\0=\0")  # a name stays on the line of its value
    for line in textwrap.wrap(kept, WIDTH, initial_indent=indent, subsequent_indent=indent):
        yield line.replace("\0", " ")


def _head(report: Report) -> Iterator[str]:
    kind = "committed plan" if report.committed else "plan, not committed yet,"
    yield f"Audit of the {kind} {report.plan[:12]}"
    yield from _wrapped(claim(report))
    yield from _wrapped(f"Protects {report.protects}")


def _parts(report: Report) -> Iterator[str]:
    replayed = report.replayed
    if replayed.pairs:
        yield ""
        yield "Replay: with and without one unit, noise frozen"
        yield from _wrapped(
            f"{replayed.pairs} pairs, {replayed.bins:,} bins. The worst costs "
            f"{replayed.worst_ratio:.2%} of what is reserved; everything else is the same.",
            indent="  ",
        )
        for name, ratio in replayed.releases.items():
            tight = ", as the theory says" if name in replayed.tight else ""
            yield f"  {_cut(name, 32):<32} worst path {ratio:>9.4%}{tight}"
    if report.canaries:
        yield ""
        yield f"Canaries: {report.cells:,} cells in each world, real noise, published values"
        yield f"  {'mu':<32} {'claimed':>9} {'of path':>9} {'shift':>9} {'exact':>9}"
        for one in report.canaries:
            gaussian = (one.path, one.bounds.shift) if report.measure == "rho" else (None, None)
            path, shift = ("-" if number is None else f"{number:.3f}" for number in gaussian)
            yield (
                f"  {_cut(one.release, 32):<32} {one.claimed:9.3f} {path:>9} {shift:>9} "
                f"{one.bounds.exact:9.3f}"
            )
        yield from _wrapped(f"{MU} Shift and exact (Clopper-Pearson) are lower bounds of it.", indent="  ")
        yield from _wrapped(
            "They hold with 95 % confidence, so one in twenty may lie above the mu of the path. The audit "
            "fails where a bound at its own, much higher confidence lies above the claim.",
            indent="  ",
        )
        draws = sum(one.laws.draws for one in report.canaries)
        least = min(min(one.laws.chances.values(), default=1.0) for one in report.canaries)
        yield from _wrapped(
            f"{draws:,} draws of real noise have their distribution and are independent (least p of "
            f"{sum(len(one.laws.chances) for one in report.canaries)} tests: {least:.2g}).",
            indent="  ",
        )
    if report.checks:
        good = sum(not found for found in report.checks.values())
        yield ""
        yield "Installed code: small and random gauges, readers, theorems, readings, stores"
        yield f"  {good} of {len(report.checks)} checks passed"
    if report.controls:
        yield ""
        yield "Positive controls: known bugs, seeded in a process of their own"
        yield f"  {report.caught} of {len(report.controls)} caught"
    if report.local:
        yield ""
        yield "Local surveys: sampled reports against the listed probabilities"
        for result in report.local:
            state = "reports follow it" if not result.found else "FAILED"
            yield (
                f"  {result.protocol:<18} {result.reporter:<8} epsilon {result.epsilon:g}, listed loss "
                f"{result.loss:.4f}, {state}"
            )


def _end(report: Report) -> Iterator[str]:
    for note in report.notes:
        yield ""
        yield from _wrapped(f"Note: {note}")
    yield ""
    for failure in report.failures:
        yield from _wrapped(f"FAILED: {failure}")
    if report.passed:
        yield from _wrapped(
            f"Passed in {report.seconds:.0f} seconds. Correct code fails with a chance below {ALPHA:g}. "
            "Nothing was read from the source, and nothing was spent."
        )
    else:
        yield from _wrapped(
            f"The audit failed after {report.seconds:.0f} seconds. Do not publish with this installation "
            "before the cause is found. Nothing was read from the source, and nothing was spent."
        )


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 3] + "..."
