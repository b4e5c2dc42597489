"""Columns that seem to name a person, by their names alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_WHO: Final = (
    "person", "people", "patient", "user", "customer", "client", "member", "student", "pupil",
    "employee", "worker",
    "staff", "citizen", "resident", "subscriber", "participant", "respondent", "subject", "donor", "driver",
    "passenger", "guest", "visitor", "applicant", "borrower", "cardholder", "account", "owner", "individual",
    "taxpayer", "voter", "inmate", "beneficiary", "policyholder", "kunde", "kunden", "mitarbeiter",
)  # fmt: skip
_ALONE: Final = ("ssn", "nhs_number", "mrn", "email", "e_mail", "social_security_number", "national_id")
_PERSON: Final = re.compile(
    rf"({'|'.join(_WHO)})(_?(id|no|nr|num|number|nummer|key|uuid|guid|code|ref|hash))?|{'|'.join(_ALONE)}"
)


def looks_like_person(column: str) -> bool:
    """Whether the name of a column suggests that its values name persons: person_id, customerNo, email."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip())
    return _PERSON.fullmatch(re.sub(r"[\s.-]+", "_", words).lower()) is not None


def person_columns(columns: Iterable[str], *, key: Collection[str] = ()) -> tuple[str, ...]:
    """The columns that seem to name a person, without the key, in their order."""
    return tuple(column for column in columns if column not in key and looks_like_person(column))


def row_note(columns: Iterable[str], *, key: Collection[str], unit: str | None) -> str | None:
    """What `plan` says if a row is protected although a column seems to name persons; None otherwise."""
    people = person_columns(columns, key=key)
    if unit is not None or not people:
        return None
    return (
        f"A row is protected, not a person: column '{people[0]}' seems to name persons, and a person may own "
        f'several rows. To protect the person, declare unit = "{people[0]}" and max_rows under [source].'
    )
