"""tidegauge ledger: what a gauge has reserved, in its store and in the ledger that it shares with others."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidegauge.cli.options import DEFAULT, File, Json, StoreFile, open_reader, print_json
from tidegauge.errors import SpecError
from tidegauge.model.json import as_object, as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegauge.model.json import JsonObject
    from tidegauge.model.ledger import LedgerEntry
    from tidegauge.store.public.shared import SharedLedger


def ledger(
    file: File = DEFAULT,
    store: StoreFile = None,
    create: Annotated[
        Path | None, typer.Option("--create", metavar="PATH", help="Make a ledger that several gauges share.")
    ] = None,
    shared: Annotated[
        Path | None, typer.Option("--shared", metavar="PATH", help="Show this shared ledger.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="With --create: the kind of unit that all gauges protect.")
    ] = None,
    term: Annotated[
        str | None, typer.Option(help="With --create: the period after which constraints renew.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="With --create: the total epsilon.")] = None,
    delta: Annotated[str | None, typer.Option(help="With --create: the total delta.")] = None,
    rho: Annotated[str | None, typer.Option(help="With --create: the total rho.")] = None,
    as_json: Json = False,
) -> None:
    """Show the committed plans and the budget reserved for them."""
    from tidegauge.cli.show import show_ledger  # noqa: PLC0415
    from tidegauge.store.public.shared import SharedLedger  # noqa: PLC0415

    if create is not None:
        made = _create(create, unit=unit, term=term, budget={"epsilon": epsilon, "delta": delta, "rho": rho})
        if as_json:
            print_json(_as_json(made))
            return
        typer.echo(f"Made {create}. Name it in each tidegauge.toml: [ledger] path")
        _show(made)
        return
    if (given := {"--unit": unit, "--term": term, "--epsilon": epsilon, "--delta": delta, "--rho": rho}) and (
        wrong := next((name for name, value in given.items() if value is not None), None)
    ):
        raise SpecError("goes with --create PATH, which makes a shared ledger", key=wrong)
    if shared is not None:
        named = SharedLedger(shared)
        print_json(_as_json(named)) if as_json else _show(named)
        return
    reader, together = open_reader(file, store), _declared(file)
    entries = reader.ledger()
    if as_json:
        own = [entry.as_json() for entry in entries]
        print_json(own if together is None else {"entries": own, "shared": _as_json(together)})
        return
    show_ledger(entries)
    if entries and (held := reader.held_back()) is not None:
        _show_left(entries, held)
    if together is not None:
        _show(together)


def _show_left(entries: Sequence[LedgerEntry], held: Fraction) -> None:
    """Print what is left of the budget, and what of it is held back for releases that are added."""
    from tidegauge.plan.wording import number as exact  # noqa: PLC0415

    body = entries[0].body
    left = body.budget - sum((entry.body.reserved for entry in entries), Fraction(0))
    typer.echo(f"Left: {body.measure} = {exact(left)} of {exact(body.budget)}")
    typer.echo(f"  held back for releases that are added: {exact(held)}")


def _declared(file: Path) -> SharedLedger | None:
    """The shared ledger that a declaration names; None where it names none, or is not to be read."""
    from tidegauge.plan.spec.declaration import load  # noqa: PLC0415
    from tidegauge.store.public.shared import SharedLedger  # noqa: PLC0415

    try:
        named = load(file).ledger
    except SpecError:
        return None
    return None if named is None else SharedLedger(file.parent / named.path)


def _create(path: Path, *, unit: str | None, term: str | None, budget: dict[str, str | None]) -> SharedLedger:
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
    return SharedLedger.create(path, terms, time=rfc3339(time.time_ns() // 1000))


def _as_json(ledger: SharedLedger) -> JsonObject:
    """The terms of a shared ledger, what is left, and its entries."""
    entries, terms = ledger.entries(), ledger.terms()
    spent = sum((entry.reserved for entry in entries), Fraction(0))
    return {
        **terms.as_json(),
        "reserved": str(spent),
        "left": str(terms.total - spent),
        "entries": [entry.as_json() for entry in entries],
    }


def _show(ledger: SharedLedger) -> None:
    """Print the terms of a shared ledger, its reservations, and what is left."""
    entries, terms = ledger.entries(), ledger.terms()
    spent = sum((entry.reserved for entry in entries), Fraction(0))
    accounted = f"{terms.measure} = {float(terms.total):.6g}"
    typer.echo(f"Shared ledger {ledger.path.name}")
    typer.echo(f"  total: {terms.declared}, accounted as {accounted}")
    typer.echo(
        f"  for each {terms.unit}, " + (f"in each {terms.term}" if terms.term else "over its lifetime")
    )
    committed = {entry.gauge for entry in entries if entry.kind == "commit"}
    for entry in entries:
        if entry.kind == "reserve":
            state = "committed" if entry.gauge in committed else "not committed yet"
            names = ", ".join(as_object(entry.body["releases"]))
            typer.echo(
                f"  {entry.time}  gauge {entry.gauge[:8]}  plan {as_text(entry.body['plan'])[:12]}  {state}"
            )
            typer.echo(f"    reserved {terms.measure} = {float(entry.reserved):.6g} for {names}")
    typer.echo(f"  left: {terms.measure} = {float(terms.total - spent):.6g}")
