"""The whole audit of one plan."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from tidegauge.audit.controls.bugs import BUGS
from tidegauge.audit.findings import noted
from tidegauge.audit.installed.checks import checks
from tidegauge.audit.local.local import check_local
from tidegauge.audit.noise.canaries import claimed_mu, run_canaries
from tidegauge.audit.replay.replay import Replayed, replay, require_within_budget
from tidegauge.audit.worlds.palette import palette

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from tidegauge.audit.controls.seed import Bug
    from tidegauge.audit.local.local import LocalResult
    from tidegauge.audit.noise.canaries import Canaries
    from tidegauge.audit.worlds.rehearsal import Subject
    from tidegauge.model.json import Json

    Progress = Callable[[str, float], None]
    """Called with what is being done and the part of it that is done."""

ALPHA: Final = 1e-6
"""The chance that the audit of right code fails, in total."""
CELLS: Final = 500
"""Samples a world of the canaries."""
RANDOM_PAIRS: Final = 12
_SHARE: Final = {"canaries": 0.4, "checks": 0.4, "local": 0.2}
"""How the parts that draw noise divide alpha; the others cannot fail by chance."""


@dataclass
class Report:
    """What the audit of one plan found."""

    plan: str
    """The plan's hash."""
    committed: bool
    protects: str
    measure: str
    claimed: dict[str, float]
    cells: int
    seed: int
    renews: bool = False
    """Whether the claim is for one term."""
    replayed: Replayed = field(default_factory=Replayed)
    canaries: list[Canaries] = field(default_factory=list)
    checks: dict[str, list[str]] = field(default_factory=dict)
    controls: dict[str, tuple[bool, str]] = field(default_factory=dict)
    """Seeded bug -> whether it was caught, and by what."""
    local: list[LocalResult] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    """What failed, but for controls."""
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def caught(self) -> int:
        """Seeded bugs that were caught."""
        return sum(caught for caught, _ in self.controls.values())

    @property
    def failures(self) -> list[str]:
        """Every reason why the audit did not pass."""
        missed = [
            f"seeded bug '{name}': {why}" for name, (caught, why) in self.controls.items() if not caught
        ]
        return [*self.found, *missed]

    @property
    def passed(self) -> bool:
        """Whether nothing failed and every seeded bug was caught."""
        return not self.failures and all(bug.name in self.controls for bug in seedable())

    @property
    def best(self) -> Canaries | None:
        """The canaries of the release that reserves most."""
        return max(self.canaries, key=lambda one: one.claimed, default=None)

    def as_json(self) -> dict[str, Json]:
        """What audit --json prints."""
        best = self.best
        pure = self.measure == "epsilon"
        return {
            "passed": self.passed,
            "claimed": self.claimed,
            "replay": {
                "pairs": self.replayed.pairs,
                "worst_ratio": self.replayed.worst_ratio,
                "bins": self.replayed.bins,
                "releases": self.replayed.releases,
                "tight": self.replayed.tight,
            },
            "canaries": {
                "cells": self.cells if best else 0,
                "mu_lower": _mu(best, pure=pure) if best else 0.0,
                "epsilon_lower": best.bounds.epsilon if best else 0.0,
                "level": 0.95,
                "releases": {one.release: _canaries_json(one) for one in self.canaries},
            },
            "controls": {
                "seeded": len(self.controls),
                "caught": self.caught,
                "bugs": {name: caught for name, (caught, _) in self.controls.items()},
            },
            "checks": {name: not found for name, found in self.checks.items()},
            "local": [one.as_json() for one in self.local],
            "alpha": ALPHA,
            "failures": self.failures,
            "notes": self.notes,
            "plan": self.plan,
            "committed": self.committed,
            "seconds": round(self.seconds, 1),
            "versions": self.versions,
        }


def _mu(one: Canaries, *, pure: bool) -> float:
    """The lower bound that is reported first: by the shift for Gaussian noise, else without assumption."""
    return one.bounds.exact if pure else one.bounds.shift


def _canaries_json(one: Canaries) -> dict[str, Json]:
    return {
        "cells": one.cells,
        "bins": one.bins,
        "mu_claimed": one.claimed,
        "mu_path": one.path,
        "mu_lower_shift": one.bounds.shift,
        "mu_lower_clopper_pearson": one.bounds.exact,
        "epsilon_lower": one.bounds.epsilon,
        "draws": one.laws.draws,
        "least_p": min(one.laws.chances.values(), default=1.0),
    }


def _silent(what: str, done: float) -> None:
    del what, done


def audit(
    subject: Subject,
    *,
    committed: bool,
    reserved: Fraction | None = None,
    cells: int = CELLS,
    seed: int | None = None,
    progress: Progress = _silent,
    only: Sequence[str] | None = None,
) -> Report:
    """Run every part and report.  Reads no data and spends nothing.

    `reserved`: what the ledger reserves for a committed plan.  `seed`: of the invented rows; noise is never
    seeded.  `only`: some of replay, canaries, controls, local.
    """
    started, plan = time.monotonic(), subject.plan
    seed = int.from_bytes(os.urandom(3), "big") if seed is None else seed
    parts = set(only or ("replay", "canaries", "controls", "local"))
    budget = {name: float(value) for name, value in vars(plan.budget).items() if value is not None}
    report = Report(
        plan=plan.hash,
        committed=committed,
        protects=plan.protects,
        measure=plan.measure,
        claimed={
            **budget,
            plan.measure: float(plan.total),
            "mu": claimed_mu(float(plan.total), pure=plan.budget.pure),
        },
        cells=cells,
        seed=seed,
        renews=plan.program.terms is not None,
        versions={name: version(name) for name in ("tidegauge", "opendp", "duckdb", "numpy")}
        | {"python": platform.python_version()},
    )
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(_controls, progress) if "controls" in parts else None
        with noted(report.found, "budget"):
            require_within_budget(plan, reserved)
        if "replay" in parts:
            with noted(report.found, "replay"):
                report.replayed = replay(
                    subject,
                    seed=seed,
                    random_pairs=RANDOM_PAIRS,
                    progress=lambda done: progress("replay", done),
                )
                report.found += report.replayed.found
        if "canaries" in parts:
            _all_canaries(subject, report, progress)
        if "local" in parts:
            with noted(report.found, "local surveys"):
                report.local, notes = check_local(
                    ALPHA * _SHARE["local"], lambda done: progress("local surveys", done)
                )
                report.notes += notes
                report.found += [problem for one in report.local for problem in one.found]
        if running is not None:
            report.checks, report.controls = running.result()
            report.found += [problem for found in report.checks.values() for problem in found]
    report.seconds = time.monotonic() - started
    return report


def _all_canaries(subject: Subject, report: Report, progress: Progress) -> None:
    """Canaries in every release; AVG has no linear readings, so its public measurements are used."""
    releases = subject.plan.releases
    with noted(report.found, "canaries"):
        rows = palette(subject.plan, report.seed)
        for n, release in enumerate(releases):
            name = release.release.name
            with noted(report.found, f"canaries in '{name}'"):
                found = run_canaries(
                    subject,
                    name,
                    rows,
                    cells=report.cells,
                    seed=report.seed,
                    alpha=ALPHA * _SHARE["canaries"] / len(releases),
                )
                if found is None:
                    report.notes.append(f"No invented row contributes to '{name}': it has no canaries.")
                else:
                    report.canaries.append(found)
            progress("canaries", (n + 1) / len(releases))


@cache
def seedable() -> tuple[Bug, ...]:
    """The bugs whose checks can run here: some need Node.js, or the reader of PostgreSQL."""
    known = checks(ALPHA)
    return tuple(bug for bug in BUGS if known.keys() >= set(bug.caught_by))


def _controls(progress: Progress) -> tuple[dict[str, list[str]], dict[str, tuple[bool, str]]]:
    """Checks and seeded bugs, in a process of their own beside this one."""
    names, bugs = list(checks(ALPHA)), seedable()
    asked = {"checks": names, "bugs": [bug.name for bug in bugs], "alpha": ALPHA * _SHARE["checks"]}
    done, found, controls = 0, {}, {}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "tidegauge.audit.controls.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asked))
        process.stdin.close()
        for line in process.stdout:
            answer = json.loads(line)
            if "check" in answer:
                found[answer["check"]] = list(answer["found"])
            else:
                controls[answer["bug"]] = bool(answer["caught"]), str(answer["why"])
            done += 1
            progress("controls", done / (len(names) + len(bugs)))
    finally:
        process.kill()
        process.wait()
    for name in names:
        found.setdefault(name, [f"{name}: the check was not run"])
    for bug in bugs:
        caught, _ = controls.setdefault(bug.name, (False, "it was not run"))
        if caught and any(found[name] for name in bug.caught_by):
            controls[bug.name] = False, "the check that would find it fails without it"
    return found, controls
