"""Batches that say more than old and new rows: renamed keys, emptied tables, values left out because they did not change.

Such a batch is brought to the plain form before anything else looks at it.  The tables on the way:

    ordered   the batch, numbered in the order in which it takes effect
    touches   which key every mutation touches: `at` it, `in` to it from another, `out` of it.  A key's touches fall into
              stays: one ends when the row goes out, or when another row comes in
    threads   a row through all its stays; who came to a key last, and did not go out of it, holds it
    events    every mutation under its thread, the state's rows as number 0, and a deletion of every row that lived when
              the table was emptied or another row took its key
    arrivals  the same in the plain form, with the values that were left out

A thread is called k and the key under which the state knows it, or n and a number.  Where the unit is the row, the thread is
the unit, so that its counters go where the row goes; who takes a key that a row left begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.engine.views import literal, owned, quote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from tidegauge.engine.statements import Statements


def resolve(sql: Statements, fields: Sequence[str], kept: Collection[str]) -> Iterator[str]:
    """The statements that bring `arrivals` to the plain form.

    `fields` are those of its images, `kept` the columns that some row left out.  The tables of what is known are there.
    """
    yield """
        CREATE OR REPLACE TEMP TABLE ordered AS
        SELECT *, row_number() OVER (ORDER BY instant, seq) AS ord FROM arrivals"""
    yield _touches()
    yield _threads()
    yield "UPDATE known_entries SET entry = 'k' || entry"
    if sql.program.max_rows is None:
        for table in ("known_entries", "known_units", "known_used"):
            yield f"UPDATE {table} SET unit = 'k' || unit"
    yield _events(sql)
    yield _plain(sql, fields, kept)


def _touches() -> str:
    return """
        CREATE OR REPLACE TEMP TABLE touches AS
        WITH touched AS (
            SELECT entry AS name, ord, CASE WHEN previous IS NULL THEN 'at' ELSE 'in' END AS how FROM ordered
            UNION ALL
            SELECT previous, ord, 'out' FROM ordered WHERE previous IS NOT NULL
            UNION ALL
            SELECT name, 0, 'known' FROM (SELECT entry AS name FROM ordered UNION SELECT previous FROM ordered)
        ), turns AS (
            SELECT *, lag(how) OVER (PARTITION BY name ORDER BY ord) AS how_was FROM touched WHERE name IS NOT NULL
        )
        SELECT *, how = 'in' AND how_was <> 'out' AS displaces,
               count(*) FILTER (how = 'in' OR how_was = 'out') OVER (PARTITION BY name ORDER BY ord) AS stay
        FROM turns"""


def _threads() -> str:
    return """
        CREATE OR REPLACE TEMP TABLE threads AS
        WITH RECURSIVE stays AS (
            SELECT name, stay, min(ord) AS begins, arg_min(how, ord) AS how, bool_or(how = 'out') AS gone FROM touches
            GROUP BY name, stay
        ), linked AS (
            SELECT stays.*, origin.name AS origin, origin.stay AS origin_stay
            FROM stays LEFT JOIN touches origin ON stays.how = 'in' AND origin.how = 'out' AND origin.ord = stays.begins
        ), followed AS (
            SELECT name, stay, gone, CASE WHEN how = 'known' THEN 'k' || name ELSE 'n' || begins END AS thread
            FROM linked WHERE origin IS NULL
            UNION ALL
            SELECT linked.name, linked.stay, linked.gone, followed.thread
            FROM linked JOIN followed ON linked.origin = followed.name AND linked.origin_stay = followed.stay
        )
        SELECT *, NOT gone AND stay = max(stay) OVER (PARTITION BY name) AS holds FROM followed"""


def _events(sql: Statements) -> str:
    return f"""
        CREATE OR REPLACE TEMP TABLE events AS
        WITH displaced AS (
            SELECT thread, ord FROM touches JOIN threads ON threads.name = touches.name AND threads.stay = touches.stay - 1
            WHERE displaces
        ), told AS (
            SELECT thread, name, ordered.* EXCLUDE (entry, previous), ordered.after IS NOT NULL AS alive
            FROM ordered JOIN touches ON touches.ord = ordered.ord AND how IN ('at', 'in') JOIN threads USING (name, stay)
            UNION ALL BY NAME
            SELECT entry AS thread, substr(entry, 2) AS name, 0 AS ord, unit, true AS alive
                   {", " + sql.remembered("image") if sql.image else ""}
            FROM known_entries
        ), lives AS (
            SELECT thread, name, ord, lead(ord) OVER (PARTITION BY thread ORDER BY ord) AS next, alive FROM told
        ), ends AS (
            SELECT lives.thread, lives.name, lives.next, least(emptied.ord, displaced.ord) AS ord
            FROM (SELECT * FROM lives WHERE alive) lives
            ASOF LEFT JOIN (SELECT ord FROM ordered WHERE entry IS NULL) emptied ON lives.ord < emptied.ord
            ASOF LEFT JOIN displaced ON lives.thread = displaced.thread AND lives.ord < displaced.ord
        )
        SELECT * FROM told
        UNION ALL BY NAME
        SELECT thread, ends.name, ord, instant, false AS informed, false AS alive FROM ends JOIN ordered USING (ord)
        WHERE next IS NULL OR ord < next"""


def _plain(sql: Statements, fields: Sequence[str], kept: Collection[str]) -> str:
    left_out = {name: f"coalesce(list_contains(kept, {literal(name)}), false)" for name in kept}
    past, unknown, images, unit = [], ["false"], "after", "unit"
    if known := [name for name in left_out if name in fields]:
        for name in known:
            stored = f"image.{quote(name)}" if name in sql.image else "NULL"
            past.append(f"""
                last_value(CASE WHEN ord = 0 THEN {{'is': {stored}}}
                                WHEN NOT {left_out[name]} THEN {{'is': after.{quote(name)}}} END IGNORE NULLS)
                OVER past AS {quote(f"was_{name}")}""")
            unknown.append(f"({left_out[name]} AND {quote(f'was_{name}')}.is IS NULL)")
        values = (
            f"{quote(name)} := "
            + (f"CASE WHEN {left_out[name]} THEN {quote(f'was_{name}')}.is ELSE after.{quote(name)} END"
               if name in known else f"after.{quote(name)}")
            for name in fields
        )  # fmt: skip
        images = f"CASE WHEN after IS NOT NULL THEN struct_pack({', '.join(values)}) END"
    if (owner := sql.program.owner) in left_out:
        past.append(f"""last_value(CASE WHEN NOT alive THEN '' WHEN NOT {left_out[owner]} THEN coalesce(unit, '') END
                               IGNORE NULLS) OVER past AS unit_was""")
        unit = f"CASE WHEN {left_out[owner]} THEN nullif(unit_was, '') ELSE unit END"
    return f"""
        CREATE OR REPLACE TEMP TABLE arrivals AS
        WITH informed_events AS (
            SELECT *{"".join(f", {part}" for part in past)} FROM events
            WINDOW past AS (PARTITION BY thread ORDER BY ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        ), filled AS (
            SELECT thread, name, ord, instant, before, informed, {unit} AS unit, {images} AS "after",
                   {" OR ".join(unknown)} AS unknown
            FROM informed_events WHERE ord > 0
        )
        SELECT row_number() OVER (ORDER BY ord, name) AS seq, thread AS entry, instant, before, informed, unknown,
               {owned(sql.program, row="thread")}
        FROM filled"""


def settled_entries(sql: Statements) -> str:
    """The state of the rows after the batch, under the keys they have now."""
    return f"""
        SELECT after.* REPLACE (coalesce(name, substr(entry, 2)) AS entry)
        FROM ({sql.entries()}) after LEFT JOIN (SELECT * FROM threads WHERE holds) ON thread = entry"""


def left_keys() -> str:
    """Keys under which the state knew a row that this batch changed; where a row has one now, it is set anew."""
    return "SELECT substr(entry, 2) FROM known_entries WHERE entry IN (SELECT entry FROM arrivals)"


def settled_counters(now: str, known: str, per: str) -> str:
    """Counters after the batch, one `per` scope or release, where the unit is the row: also those that only go along."""
    return f"""
        SELECT now.* REPLACE (coalesce(name, substr(unit, 2)) AS unit)
        FROM (SELECT * FROM ({now}) UNION ALL BY NAME
              SELECT * FROM {known} ANTI JOIN ({now}) USING (unit, {per}) WHERE unit IN (SELECT thread FROM threads)) now
        LEFT JOIN threads ON thread = unit AND NOT gone
        WHERE holds IS NULL OR holds"""


def void_units() -> str:
    """Keys whose counters went elsewhere, or belong to a row whose key another one took."""
    return "SELECT name FROM touches WHERE how = 'known' AND name NOT IN (SELECT name FROM threads WHERE holds AND thread = 'k' || name)"
