"""The first tidegauge.toml: the [source] that a kind proposes, and the rest of the file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SpecError
from tidegauge.model.kinds import SOURCES
from tidegauge.model.quantity import DAY, moment
from tidegauge.model.source import Asked, Claim
from tidegauge.source.batch.draft import bare, line, quoted
from tidegauge.source.batch.names import quote

if TYPE_CHECKING:
    from tidegauge.model.source import Draft

_SETTINGS: Final = re.compile(
    r"\b(host|hostaddr|port|user|password|dbname|service|passfile)\s*=", re.IGNORECASE
)
"""Words that occur in a connection string of keywords and values."""


_RECENT: Final = 7 * DAY
"""Data that end less than this ago are taken to go on."""


def template(
    what: str | None, folder: Path, *, kind: str | None, table: str | None, schema: str | None
) -> Draft:
    """The declaration that a kind of source proposes: the kind that was named, or the one that claims `what`.

    Raises SpecError if there is no such kind, or if it cannot read `what`.
    """
    if kind is not None and kind not in SOURCES.names():
        raise SpecError(f"there is no such kind; one of {', '.join(SOURCES.names())}", key="--kind")
    if what is not None and not what.startswith("env:") and ("://" in what or _SETTINGS.search(what)):
        raise SpecError(
            "a connection string may contain a password: put it into the environment and write "
            "env:NAME_OF_THE_VARIABLE"
        )
    asked = Asked(what, folder, table, schema)
    claims = {name: SOURCES.named(name).claim(asked) for name in SOURCES.names()}
    order = (Claim.OWN, Claim.LIKELY, Claim.OTHERWISE)
    best = next((name for wanted in order for name in claims if claims[name] is wanted), None)
    name = kind or best
    if name is None or (what is None and claims[name] is Claim.NONE):
        raise SpecError(
            "say where the table is: tidegauge init changes.csv, app.db, exports/patients.parquet, or "
            "env:DATABASE_URL --table patients; or --kind debezium --table patients for events over HTTP or "
            "Kafka"
        )
    claimed = best is not None and claims[best] is Claim.OWN
    if claims[name] is Claim.NONE or (claims[name] is Claim.OTHERWISE and claimed and name != best):
        able = [one for one, claim in claims.items() if one == best or claim is Claim.IF_NAMED]
        raise SpecError(f"{_shown(asked)} cannot be read as {name}; one of {', '.join(able)}", key="--kind")
    return SOURCES.named(name).template(asked)


def _shown(asked: Asked) -> str:
    return "a table of a server" if asked.server else Path(asked.what or "").name


def text(draft: Draft, now: int) -> str:
    """A whole tidegauge.toml, with other possibilities in comments."""
    return "\n".join([*draft.source, *_constraint(draft), *_releases(draft, now), ""])


def report(draft: Draft, *, terminal: bool) -> list[str]:
    """What `init` prints: what it understood, decisions to check and, on a terminal only, the first rows."""
    lines = list(draft.understood)
    if draft.rows and terminal:
        lines += ["First rows as changes (these are DATA: do not pass them on):"]
        lines += [f"  {row}" for row in draft.rows]
    if draft.unsure:
        lines += ["Not sure, please check:", *(f"  - {one}." for one in draft.unsure)]
    return lines


def _constraint(draft: Draft) -> list[str]:
    return [
        "",
        "[constraint]                      # limits what one unit can change",
        f"at_most = {draft.changes}".ljust(34) + "# changes of a unit that count, the first included",
        '# within = "30 days"              # instead or as well: within 30 days of the first',
        'on_excess = "freeze"              # later changes are ignored; or "retire": the unit leaves',
        "",
        "[budget]                          # privacy loss of one unit, all releases together",
        "epsilon = 1",
        "delta = 1e-6                      # leave it out for pure epsilon",
    ]


def _schedule(draft: Draft, now: int) -> list[str]:
    """Start and duration: data with a past begin on their first day, others with the gauge."""
    if draft.first is None or draft.last is None or draft.first > now:
        return [
            '# start = "2026-01-01"            # the first reading; default: the next round time',
            'every = "1 day"',
            'for = "1 year"                    # or "ever"',
        ]
    first = draft.first - draft.first % DAY
    grows = draft.last > now - _RECENT
    days = max(1, -(-(min(draft.last, now) - first) // DAY))
    years = -(-(now - first) // (366 * DAY)) + 1
    long = line("for", f"{years} years", 'the past and at least a year more; or "ever"')
    return [
        line(
            "start", moment(first).date().isoformat(), "the first day of the data; this date becomes public"
        ),
        'every = "1 day"',
        long
        if grows or draft.open_ended
        else line("for", f"{days} day{'s' if days > 1 else ''}", "to the last day of the data"),
    ]


def _releases(draft: Draft, now: int) -> list[str]:
    table = quote(draft.table)
    lines = [
        "",
        "[release.total]",
        f"sql = {quoted(f'SELECT COUNT(*) FROM {table}')}",
        *_schedule(draft, now),
        "",
        "# [release.change_7_days]          # its change over a week, at no further privacy loss",
        '# of = "total"',
        '# window = "7 days"',
    ]
    for column, values in list(draft.words.items())[:1]:
        named = quote(column)
        seen = "the groups below were seen in the data: keep only those that are public"
        lines += [
            "",
            f"# [release.{bare(f'by_{column}')}]".ljust(34)
            + f"# {seen if values else 'declare every group: the names are published'}",
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
            + "# values are clamped to this range; choose it without looking at the data",
            '# every = "1 day"',
        ]
    return lines
