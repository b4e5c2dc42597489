"""The first tidegauge.toml: a [source] as its kind proposes it, and the rest of the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model import kinds
from tidegauge.model.source import Asked, Claim
from tidegauge.source.batch.draft import bare, quoted
from tidegauge.source.batch.names import quote

if TYPE_CHECKING:
    from tidegauge.model.source import Draft

_SETTINGS: Final = re.compile(
    r"\b(host|hostaddr|port|user|password|dbname|service|passfile)\s*=", re.IGNORECASE
)
"""What a connection string of keywords and values has in it."""


def template(
    what: str | None, folder: Path, *, kind: str | None, table: str | None, schema: str | None
) -> Draft:
    """The declaration that a kind of source proposes: the kind that was named, or the one that `what` is for.

    Raises SpecError where there is no such kind, or it cannot read `what`.
    """
    if kind is not None and kind not in kinds.names():
        raise SpecError(f"one of {', '.join(kinds.names())}", key="--kind")
    if what is not None and not what.startswith("env:") and ("://" in what or _SETTINGS.search(what)):
        raise SpecError(
            "a connection string may hold a password: put it into the environment and write env:NAME_OF_THE_VARIABLE"
        )
    asked = Asked(what, folder, table, schema)
    claims = {name: kinds.find(name).claim(asked) for name in kinds.names()}
    best = next(
        (name for wanted in (Claim.OWN, Claim.OTHERWISE) for name in claims if claims[name] is wanted), None
    )
    name = kind or best
    if name is None or (what is None and claims[name] is Claim.NONE):
        raise SpecError(
            "say where the table is: tidegauge init changes.csv, app.db, exports/patients.parquet --kind snapshots, "
            "env:DATABASE_URL --table patients; or --kind debezium --table patients for events over HTTP or Kafka"
        )
    claimed = best is not None and claims[best] is Claim.OWN
    if claims[name] is Claim.NONE or (claims[name] is Claim.OTHERWISE and claimed and name != best):
        able = [one for one, claim in claims.items() if one == best or claim is Claim.IF_NAMED]
        raise SpecError(f"{_shown(asked)} cannot be read as {name}; one of {', '.join(able)}", key="--kind")
    return kinds.find(name).template(asked)


def _shown(asked: Asked) -> str:
    return "a table of a server" if asked.server else Path(asked.what or "").name


def text(draft: Draft) -> str:
    """A whole tidegauge.toml, with the rest of what could be said in comments."""
    return "\n".join([*draft.source, *_rest(draft), ""])


def _rest(draft: Draft) -> list[str]:
    table = quote(draft.table)
    lines = [
        "",
        "[constraint]                      # what bounds the loss of one unit, for ever",
        "at_most = 4                       # changes that count, the first included",
        '# within = "30 days"              # and / or: all of them so soon after the first',
        'on_excess = "freeze"              # or "retire": leave at the last allowed change',
        "",
        "[budget]                          # for one unit, for all releases together, for ever",
        "epsilon = 1",
        "delta = 1e-6                      # without it: pure epsilon",
        "",
        "[release.total]",
        f"sql = {quoted(f'SELECT COUNT(*) FROM {table}')}",
        '# start = "2026-01-01"            # the first reading; default: when the plan is committed',
        'every = "1 day"',
        'for = "1 year"                    # or "ever"',
        "",
        "# [release.change_7_days]          # how that changed in a week: the same measurements tell it, at no cost",
        '# of = "total"',
        '# window = "7 days"',
    ]
    for column, values in list(draft.words.items())[:1]:
        named = quote(column)
        seen = "the groups below were seen in the data: keep only what is public anyway"
        lines += [
            "",
            f"# [release.{bare(f'by_{column}')}]".ljust(34)
            + f"# {seen if values else 'declare every group: they are public'}",
            f"# sql = {quoted(f'SELECT {named}, COUNT(*) FROM {table} GROUP BY {named}')}",
            f"# groups.{bare(column)} = [{', '.join(map(quoted, values or ('one', 'another')))}]",
            '# every = "1 day"',
        ]
    for column in draft.numbers[:1]:
        named = quote(column)
        lines += [
            "",
            f"# [release.{bare(f'mean_{column}')}]",
            f"# sql = {quoted(f'SELECT AVG({named}) FROM {table}')}",
            f"# bounds.{bare(column)} = [0, 100]".ljust(34)
            + "# values are clamped into these; choose them without looking",
            '# every = "1 day"',
        ]
    return lines
