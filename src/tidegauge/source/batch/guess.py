"""What a column may be, by its name: the guesses of `init`, which its user confirms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

TIMES: Final = (
    "time", "ts", "timestamp", "at", "changed_at", "updated_at", "modified_at", "event_time",
    "event_timestamp",
    "occurred_at", "created_at", "datetime", "date_time", "date", "event_date", "change_date",
    "changed_on", "updated_on",
    "when", "day", "zeitpunkt", "zeit", "datum",
)  # fmt: skip
"""Names of columns with the time of a change, the surest first."""
_TIME_ENDS: Final = re.compile(r"(^|_)(at|on|time|timestamp|ts|date|datetime|epoch|dt)$")
_BIRTH: Final = re.compile(r"birth|born|dob|geburt")
KEYS: Final = (
    "id",
    "entry",
    "key",
    "pk",
    "uuid",
    "guid",
    "row_id",
    "entry_id",
    "record_id",
    "row_key",
    "rowid",
)
"""Names of columns with a primary key, the surest first."""
_KEY_ENDS: Final = re.compile(r"(^|_)(id|key|uuid|guid|nr|no|number|nummer|code)$")
OPS: Final = (
    "op",
    "operation",
    "action",
    "change",
    "change_type",
    "event",
    "event_type",
    "kind",
    "type",
    "cdc_op",
)
_SPANS: Final = (
    ("dbt_valid_from", "dbt_valid_to"), ("valid_from", "valid_to"), ("valid_from", "valid_until"),
    ("validfrom", "validto"),
    ("effective_from", "effective_to"), ("eff_from", "eff_to"), ("effective_date", "expiry_date"),
    ("effective_start_date", "effective_end_date"), ("eff_start_date", "eff_end_date"),
    ("valid_start", "valid_end"),
    ("row_start", "row_end"), ("sys_start", "sys_end"), ("gueltig_von", "gueltig_bis"),
    ("gueltig_ab", "gueltig_bis"),
)  # fmt: skip
_WEAK_SPANS: Final = (
    ("start_date", "end_date"), ("from_date", "to_date"), ("begin_date", "end_date"),
    ("started_at", "ended_at"),
    ("start_time", "end_time"), ("date_from", "date_to"), ("von", "bis"),
)  # fmt: skip
"""Also names of dates of a contract or a stay, which mean the same: from when to when the row is there."""
CURRENT: Final = (
    "is_current",
    "current",
    "current_flag",
    "is_active_version",
    "dbt_is_current",
    "current_row",
)
TRUE: Final = ("t", "true", "1", "y", "yes")
FALSE: Final = ("f", "false", "0", "n", "no")
DELETED: Final = ("dbt_is_deleted", "is_deleted", "deleted_flag", "_deleted")
PICTURES: Final = (
    "snapshot_date", "snapshot", "snapshot_at", "snapshot_time", "snapshot_ts", "as_of", "as_of_date",
    "asof", "asof_date",
    "load_date", "loaded_at", "extract_date", "extracted_at", "export_date", "report_date",
    "reporting_date", "stichtag",
)  # fmt: skip
"""Names of columns with the date on which the whole table was written down."""
NAMES: Final = re.compile(
    r"(^|_)(id|key|uuid|guid|nr|no|number|name|mail|email|person|patient"
    r"|user|note|notes|comment|address|phone)$"
)
"""Names of columns that identify or describe one row, and so make neither groups nor means."""


def plain(column: str) -> str:
    """The name in small letters, words joined by underscores: 'Valid From' and 'validFrom' are valid_from."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip())
    return re.sub(r"[\s.\-()]+", "_", words).strip("_").lower()


def by_name(names: Iterable[str], columns: Iterable[str]) -> str | None:
    """The first of these names that is the name of a column; the column as it is written."""
    there = {plain(column): column for column in reversed(list(columns))}
    return next((there[name] for name in names if name in there), None)


def like_time(column: str) -> bool:
    """Whether a column may contain the time of a change: not one of birth."""
    name = plain(column)
    return (name in TIMES or _TIME_ENDS.search(name) is not None) and not of_birth(column)


def of_birth(column: str) -> bool:
    """Whether a column contains a date of birth."""
    return _BIRTH.search(plain(column)) is not None


def like_key(column: str) -> bool:
    """Whether a column may contain a key: not one that dbt adds, where dbt_scd_id names a version."""
    name = plain(column)
    return not name.startswith("dbt_") and (name in KEYS or _KEY_ENDS.search(name) is not None)


def names_rows(column: str) -> bool:
    """Whether a column identifies or describes one row; neither a group nor a mean of it makes sense."""
    return NAMES.search(plain(column)) is not None


def validity(columns: Iterable[str]) -> tuple[str, str] | None:
    """The columns with the time from and to which a version of a row is valid."""
    there = list(columns)
    for pair in (*_SPANS, *_WEAK_SPANS):
        begins, ends = (by_name([name], there) for name in pair)
        if begins is not None and ends is not None:
            return begins, ends
    return None


def version_begin(columns: Iterable[str]) -> str | None:
    """The column with the time from which a version is valid, where none says until when."""
    return by_name([begins for begins, _ in _SPANS], columns)


def ends_unknown(begins: str, current: str) -> str:
    """What is not certain if versions are marked as current and no column says when one ends."""
    return (
        "no column says when a version ends, so it ends when the next one of the same key begins. If the "
        f"last one is not marked in '{current}', the row is gone, but since when is not known: it counts "
        f"until that last '{begins}' only. If another column has the end, declare it as valid_to"
    )


def says_whether(value: str) -> bool:
    """Whether a value is one of the words for true and false."""
    return value.strip().lower() in {*TRUE, *FALSE}


def weak_validity(pair: tuple[str, str]) -> bool:
    """Whether the names of the two columns may also mean something else."""
    return (plain(pair[0]), plain(pair[1])) in _WEAK_SPANS
