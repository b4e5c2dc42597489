"""The column that a name in the SELECT refers to.  Letter case matters only in quotes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sqlglot import exp

from tidegauge.model.expression import Column
from tidegauge.model.quoting import quote
from tidegauge.plan.sql.refusals import Refused, refuse
from tidegauge.plan.sql.terms import Term, column

if TYPE_CHECKING:
    from tidegauge.model.expression import Side
    from tidegauge.model.query import Kind


@dataclass(frozen=True)
class Columns:
    """The columns of the table, as a SELECT of one kind may name them."""

    types: Mapping[str, str]
    kind: Kind
    qualifiers: frozenset[str]

    def settle(self, node: exp.Expr) -> None:
        """Rewrite every column to one spelling, so that equal expressions are equal trees."""
        for found in list(node.find_all(exp.Column)):
            if isinstance(found.this, exp.Star):
                refuse("*", found.sql())
            written = ".".join(part.name for part in found.parts)
            if len(found.parts) > 2 or (found.table and found.table.lower() not in self.qualifiers):
                raise Refused(f"{written}: {self._advice(found)}")
            if self.kind == "flow" and not found.table:
                raise Refused(f"{written}: {self._advice(found)}")
            found.set("this", _identifier(self.exact(found.this)))
            found.set("table", _identifier(found.table.lower()) if self.kind == "flow" else None)

    def _advice(self, found: exp.Column) -> str:
        if self.kind == "stock" and found.table.lower() in {"before", "after"}:
            return "old and new rows are there in a flow only: FROM changes(...)"
        if self.kind == "flow" and found.name.lower() in {"before", "after"}:
            return f"test a column that is never empty in a row, such as the key: {found.name}.id IS NULL"
        if self.kind == "flow" and not found.table:
            return f"a change has an old and a new row; write before.{found.name} or after.{found.name}"
        return f"a column is named alone or after {' or '.join(sorted(self.qualifiers))}."

    def exact(self, identifier: exp.Identifier) -> str:
        """The column's name in the source."""
        written = identifier.name
        if identifier.args.get("quoted"):
            matches = [written] if written in self.types else []
        else:
            matches = [one for one in self.types if one.lower() == written.lower()]
        if len(matches) > 1:
            raise Refused(
                f"{written} may be {' or '.join(map(quote, matches))}; put the one that is meant in quotes"
            )
        if not matches:
            raise Refused(f"there is no column {written}; {nearest(written, self.types)}", unknown=written)
        return matches[0]

    def term(self, settled: exp.Column) -> Term:
        """The term of a settled column, in the old or the new row."""
        side: Side = "before" if settled.table == "before" else "after"
        return column(Column(side, settled.name), self.types[settled.name])

    def has(self, identifier: exp.Identifier) -> bool:
        """Whether the name refers to a column."""
        try:
            self.exact(identifier)
        except Refused:
            return False
        return True


def _identifier(exact: str) -> exp.Identifier:
    return exp.Identifier(this=exact, quoted=not re.fullmatch(r"[a-z_][a-z0-9_]*", exact))


def nearest(written: str, names: Mapping[str, str]) -> str:
    """A suggestion of similar names, as the end of a message."""
    by_lower = {one.lower(): one for one in names}
    close = [by_lower[one] for one in get_close_matches(written.lower(), by_lower, n=3)]
    return f"did you mean {' or '.join(close)}?" if close else f"there is {', '.join(sorted(names)[:10])}"
