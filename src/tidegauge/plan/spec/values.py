"""Values that keys of a tidegauge.toml take: exact numbers, durations, times, and alternatives."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator

from tidegauge.errors import TidegaugeError
from tidegauge.model.quantity import Span, fraction, instant


def _exact(value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction | str):
        raise ValueError("must be a number")  # noqa: TRY004  (pydantic turns it into a message)
    return Fraction(plainly(fraction, value))


def plainly(parse: Any, value: Any) -> Any:
    """Let pydantic attribute a refusal to its key."""
    try:
        return parse(value)
    except TidegaugeError as error:
        raise ValueError(str(error)) from None


Number = Annotated[Fraction, BeforeValidator(_exact)]
Duration = Annotated[Span, BeforeValidator(lambda value: plainly(Span.parse, value))]


def _time(value: object) -> int:
    """The instant of a date or time, quoted or not; a date is its midnight, without a zone in UTC."""
    match value:
        case datetime() | str():
            return int(plainly(instant, value))
        case date():
            return instant(datetime.combine(value, time()))
        case _:
            raise ValueError(f"{value} is not a date or time: write 2026-01-31 or 2026-01-31T12:00:00Z")


Time = Annotated[int, BeforeValidator(_time)]


def an_end(value: object) -> object:
    """A duration, or no end; both ways of being wrong are one mistake."""
    return value if value == "ever" else plainly(Span.parse, value)


def a_strategy(value: object) -> object:
    """A name, or a table of a name and parameters; both ways of being wrong are one mistake."""
    parameters = value.values() if isinstance(value, dict) else ()
    if not isinstance(value, str | dict | None) or not all(
        isinstance(one, int | float | Decimal | str) for one in parameters
    ):
        raise ValueError("write the name of a strategy, or { name = ..., and all its parameters }")
    return value
