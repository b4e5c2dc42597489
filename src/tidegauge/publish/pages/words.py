"""Words for lay readers: what a unit is called, and how its constraint reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tidegauge.model.json import as_object
from tidegauge.model.person import looks_like_person
from tidegauge.model.quantity import Span

if TYPE_CHECKING:
    from tidegauge.model.json import Json, JsonObject
    from tidegauge.publish.public.values import Guarantee


def unit_word(promise: Guarantee) -> str:
    """'patient' of the table patients or patient, 'person' of the column person_id; else 'row'."""
    if promise.unit is not None:
        return (
            re.sub(r"[ _]?(id|key|no|nr|number|uuid|hash)$", "", promise.unit, flags=re.I).replace("_", " ")
            or promise.unit
        )
    table = promise.table.rpartition(".")[2].replace("_", " ")
    one = singular(table)
    # A name that is no plural, such as care, need not be what one row is called.
    return one if one != table or looks_like_person(table) else "row"


def singular(word: str) -> str:
    """The noun in the singular, for regular English plurals."""
    lower = word.lower()
    if lower.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if lower.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if lower.endswith("s") and not lower.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def constraint_sentences(constraint: JsonObject, unit: str) -> list[str]:
    """The constraint as sentences."""
    found = []
    at_most, within = constraint.get("at_most"), _duration(constraint.get("within"))
    if at_most is not None:
        renews = _duration(constraint.get("renews"))
        term = f" in every {renews}" if renews else ""
        found.append(f"At most {at_most} changes of one {unit} count{term}, the first one included.")
    if within is not None:
        found.append(f"Changes of one {unit} count for {within} after the first.")
    if "by" in constraint:
        found.append(f"The limits depend on the column {constraint['by']} when the {unit} first enters.")
    if found:
        found.append(
            f"After that the {unit} leaves the numbers."
            if constraint.get("on_excess") == "retire"
            else f"Later changes are dropped: the {unit} stays in the numbers as last counted."
        )
    return found


def _duration(declared: Json) -> str | None:
    return None if declared is None else str(Span.from_json(as_object(declared)))
