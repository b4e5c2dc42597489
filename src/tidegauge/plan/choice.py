"""The private choice of at_most and on_excess, as a plan records it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from textwrap import wrap
from typing import TYPE_CHECKING

from tidegauge.model.json import as_list, as_number, as_object, as_text, as_whole, lists
from tidegauge.model.quantity import rfc3339

if TYPE_CHECKING:
    from tidegauge.model.json import Json, JsonObject


@dataclass(frozen=True)
class Choice:
    """How at_most and on_excess are chosen privately from the past (T22), and what that costs.

    Everything here is public: the candidates were declared, and the chosen one was drawn with noise.
    """

    candidates: tuple[tuple[int, str], ...]
    """(at_most, on_excess) of each."""
    cost: Fraction
    """The privacy loss of the draw, in the measure of the plan."""
    since: int
    """The first instant of the past that is looked at, and ..."""
    until: int
    """... the last, in microseconds."""
    drawn: int | None = None
    """The number of the candidate that was drawn; None before the first run."""
    noise: tuple[tuple[str, tuple[float, ...]], ...] = ()
    """By release: the predicted RMSE of its noise for each candidate."""

    @property
    def chosen(self) -> tuple[int, str] | None:
        """at_most and on_excess as drawn."""
        return None if self.drawn is None else self.candidates[self.drawn]

    def lines(self, measure: str) -> list[str]:
        """How at_most is chosen, or was, as `tidegauge plan` prints it."""
        spent = f"{measure} = {float(self.cost):.6g}"
        past = f"{rfc3339(self.since)} to {rfc3339(self.until)}"
        if self.chosen is not None:
            most, mode = self.chosen
            return [
                f"Chosen    at_most = {most}, on_excess = {mode}: chosen privately",
                f"          from {past}, for {spent}",
            ]
        lines = [
            "Chosen    at_most and on_excess are chosen privately at the first run,",
            f"          from {past}, for {spent},",
            "          and are then part of the plan. Errors below are those of the largest",
            "          at_most. Predicted RMSE of the noise over the largest value of a row:",
        ]
        for name, errors in self.noise:
            by_most = {most: error for (most, _), error in zip(self.candidates, errors, strict=True)}
            shown = ", ".join(f"{most}: {error:,.3g}" for most, error in by_most.items())
            lines += wrap(f"{name}: {shown}", 80, initial_indent=" " * 12, subsequent_indent=" " * 14)
        return lines

    def as_json(self) -> dict[str, Json]:
        """The fields that plan --json shows."""
        most, mode = self.chosen or (None, None)
        return {
            "at_most": most,
            "on_excess": mode,
            "cost": float(self.cost),
            "from": rfc3339(self.since),
            "to": rfc3339(self.until),
            "candidates": [
                {
                    "at_most": one,
                    "on_excess": also,
                    "noise": {name: errors[number] for name, errors in self.noise},
                }
                for number, (one, also) in enumerate(self.candidates)
            ],
        }

    def record(self) -> dict[str, Json]:
        """The record in a committed plan."""
        return {
            "candidates": [list(one) for one in self.candidates],
            "cost": str(self.cost),
            "since": self.since,
            "until": self.until,
            "drawn": self.drawn,
            "noise": {name: list(errors) for name, errors in self.noise},
        }

    @classmethod
    def from_record(cls, record: JsonObject) -> Choice:
        """The choice that was committed."""
        return cls(
            candidates=tuple((as_whole(most), as_text(mode)) for most, mode in lists(record["candidates"])),
            cost=Fraction(as_text(record["cost"])),
            since=as_whole(record["since"]),
            until=as_whole(record["until"]),
            drawn=None if record["drawn"] is None else as_whole(record["drawn"]),
            noise=tuple(
                (name, tuple(as_number(error) for error in as_list(errors)))
                for name, errors in as_object(record["noise"]).items()
            ),
        )
