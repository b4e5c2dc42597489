"""tidegauge ledger: what was reserved, in the store of a gauge and in the ledger that it shares with others."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import typer

from tidegauge.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from tidegauge.store.public.shared import SharedLedger


def create(path: Path, *, unit: str | None, term: str | None, budget: dict[str, str | None]) -> None:
    """Make a shared ledger with its total."""
    from tidegauge.model.budget import Budget  # noqa: PLC0415
    from tidegauge.model.quantity import Span, rfc3339  # noqa: PLC0415
    from tidegauge.plan.certify import accounted  # noqa: PLC0415
    from tidegauge.store.public.shared import SharedLedger, Terms  # noqa: PLC0415

    if unit is None:
        raise SpecError(
            "name the kind of unit that all gauges protect, such as --unit person_id", key="--unit"
        )
    whole = Budget(**budget)
    renews = None if term is None else str(Span.parse(term))
    measure = "epsilon" if whole.pure else "rho"
    terms = Terms(measure, accounted(whole), unit, renews, str(whole))
    ledger = SharedLedger.create(path, terms, time=rfc3339(time.time_ns() // 1000))
    typer.echo(f'Made {path.name}. Name it in each gauge: [ledger] path = "{path}"')
    show(ledger)


def as_json(ledger: SharedLedger) -> dict[str, Any]:
    """The terms of a shared ledger, what is left, and its entries."""
    entries, terms = ledger.entries(), ledger.terms()
    spent = sum((entry.reserved for entry in entries), Fraction(0))
    return {
        **terms.as_json(),
        "reserved": str(spent),
        "left": str(terms.total - spent),
        "entries": [entry.as_json() for entry in entries],
    }


def show(ledger: SharedLedger) -> None:
    """Print the terms of a shared ledger, its reservations, and what is left."""
    entries, terms = ledger.entries(), ledger.terms()
    spent = sum((entry.reserved for entry in entries), Fraction(0))
    accounted = f"{terms.measure} = {float(terms.total):.6g}"
    typer.echo(f"Shared ledger {ledger.path.name}: {terms.declared} in all, accounted as {accounted}")
    typer.echo(
        f"  for each {terms.unit}, " + (f"in each {terms.term}" if terms.term else "over its lifetime")
    )
    committed = {entry.gauge for entry in entries if entry.kind == "commit"}
    for entry in entries:
        if entry.kind == "reserve":
            state = "committed" if entry.gauge in committed else "not committed yet"
            names = ", ".join(entry.body["releases"])
            typer.echo(f"  {entry.time}  gauge {entry.gauge[:8]}  plan {entry.body['plan'][:12]}  {state}")
            typer.echo(f"    reserved {terms.measure} = {float(entry.reserved):.6g} for {names}")
    typer.echo(f"  left: {terms.measure} = {float(terms.total - spent):.6g}")
