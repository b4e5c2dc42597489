"""Columns that seem to name a person."""

from __future__ import annotations

import pytest

from tidegauge.model.person import looks_like_person, person_columns, row_note


@pytest.mark.parametrize(
    "name",
    ["person_id", "patient", "customerId", "Customer ID", "user_uuid", "member_no", "Kundennr", "email",
     "SSN", "employee-id"],
)  # fmt: skip
def test_like_a_person(name: str) -> None:
    assert looks_like_person(name)


@pytest.mark.parametrize(
    "name", ["id", "status", "user_agent", "patient_count", "accounting", "userland", "customer_city"]
)
def test_not_like_a_person(name: str) -> None:
    assert not looks_like_person(name)


def test_a_row_is_protected_although_a_column_names_persons() -> None:
    note = row_note(["id", "person_id", "ward"], key=["id"], unit=None)
    assert note is not None
    assert note.startswith("A row is protected, not a person: column 'person_id'")
    assert 'unit = "person_id"' in note
    assert row_note(["id", "person_id"], key=["id"], unit="person_id") is None
    assert row_note(["person_id", "ward"], key=["person_id"], unit=None) is None
    assert row_note(["id", "ward"], key=["id"], unit=None) is None
    assert person_columns(["id", "patient_id", "user"], key=["user"]) == ("patient_id",)
