"""What a SELECT may not contain, and why.  docs/sql.md prints this list."""

from __future__ import annotations

from typing import Final, NoReturn


class Refused(Exception):
    """The SELECT, or the declaration that `key` names, is not accepted.

    `unknown`: the column that is not in the table, if that is the reason.
    """

    def __init__(self, message: str, *, key: str | None = None, unknown: str | None = None) -> None:
        super().__init__(message)
        self.key, self.unknown = key, unknown


class Mismatch(Refused):
    """Terms of kinds that do not fit together.  The caller adds the expression to the message."""


REFUSALS: Final = {
    "not a SELECT": "a release is one SELECT over one table; nothing else is run",
    "second statement": "a release is one SELECT; declare one release for each",
    "WITH": "a release reads the table itself; "
    "write the conditions into WHERE, the expressions where they are used",
    "UNION": "a release is one SELECT; declare one release for each part and add their readings",
    "sub-query": "the contribution of a row must depend on that row alone; write the condition into WHERE",
    "JOIN": "a release reads one table; "
    "copy the joined columns into that table (triggers or the application keep them up to date), or "
    'export the joined rows and follow the exports (kind = "snapshots")',
    "other table": "a release reads the table that [source] declares; write its name after FROM",
    "no table": "say which table: FROM and its name",
    "DISTINCT": "whether a row is the first of its kind depends on the other rows; to count persons who own "
    "several rows, declare the column as unit with max_rows = 1 in [source] and publish COUNT(*), which then "
    "counts each of them once; to count a few public values, declare them as groups",
    "HAVING": "which groups are shown would depend on exact counts; "
    "leave it out, every declared group is published",
    "LIMIT": "which groups are shown would depend on exact counts; declare only the groups that are wanted",
    "ORDER BY": "the order of the groups is public and fixed: that of the declaration; leave it out",
    "window function": "it looks at other rows; the contribution of a row must depend on that row alone; "
    "store what is wanted in a column of the row",
    "SAMPLE": "it draws at random, differently each time; leave it out, every row is read",
    "GROUPING SETS": "a row is in one group only; name the columns in GROUP BY, "
    "and declare one release for each further grouping",
    "clause": "it is no part of a linear query over one table; leave it out",
    "no aggregate": "publish exactly one of COUNT(*), COUNT(expression), SUM(expression), AVG(expression)",
    "second aggregate": "every aggregate has its own noise and its own error; declare one release for each",
    "other aggregate": "it is not a sum over the rows, so one row could change it by any amount; "
    "publish COUNT(*) by declared ranges (GROUP BY a CASE), SUM or AVG",
    "aggregate arithmetic": "noise is added to the aggregate itself; AVG(a) is SUM(a) / COUNT(a), "
    "and for any other formula declare one release for each aggregate and combine their readings",
    "nested aggregate": "an aggregate is taken over rows, not over aggregates; publish the inner one",
    "misplaced aggregate": "WHERE and GROUP BY look at one row at a time; filter the readings instead",
    "*": "name what is wanted; a star is for COUNT(*) alone",
    "parameter": "a committed plan is complete; write the value itself",
    "non-deterministic function": "it gives another answer each time, "
    "and a row must count the same whenever it is read; compare with a fixed date or with another column",
    "unknown function": "it is not known to be a fixed function of the row; docs/sql.md lists the functions",
    "expression": "it is not among the expressions of docs/sql.md; write it with those",
    "type": "CAST takes BOOLEAN, the integers, DECIMAL(p, s), DOUBLE, VARCHAR, DATE and TIMESTAMP",
    "pattern": "the pattern of LIKE must be a text in quotes that does not end in the escape character",
}  # fmt: skip


def refuse(name: str, what: str | None = None) -> NoReturn:
    """Raise Refused with what was found and why it is not accepted."""
    raise Refused(f"{what or name} is refused: {REFUSALS[name]}")
