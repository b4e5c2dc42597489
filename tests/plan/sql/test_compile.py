"""The form of a SELECT, its declarations, and what is said where they do not fit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from pydantic import TypeAdapter

from tidegauge.engine.duckdb.render import render
from tidegauge.errors import QueryError
from tidegauge.model.expression import Column, Constant, call
from tidegauge.model.query import Component, Group, Query
from tidegauge.plan.spec.source import DeclaredSource
from tidegauge.plan.sql.compile import compile_query

ODD = 'x"; drop table y; --'
COLUMNS = {
    "id": "BIGINT",
    "ward": "VARCHAR",
    "age": "VARCHAR",
    "status": "VARCHAR",
    "stay": "BIGINT",
    "cost": "DECIMAL(10,2)",
    "insured": "BOOLEAN",
    "born": "DATE",
    "seen": "TIMESTAMP WITH TIME ZONE",
    "photo": "BLOB",
    "Mixed Case": "VARCHAR",
    ODD: "VARCHAR",
}
AGE = {"age": (Fraction(0), Fraction(110))}


def compiled(sql: str, **declared: Any) -> Query:
    return compile_query(sql, **{"table": "patients", "columns": COLUMNS, **declared})


def refusal(sql: str, **declared: Any) -> str:
    with pytest.raises(QueryError) as caught:
        compiled(sql, **declared)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_count() -> None:
    query = compiled("SELECT COUNT(*) FROM patients WHERE status = 'ill'")
    assert query == Query(
        kind="stock",
        aggregate="count",
        table="patients",
        text="select count(*) from patients where status = 'ill'",
        cell=call(
            "where", call("and", call("present", "after"), call("=", Column("after", "status"), "ill")), 0
        ),
        outside=Constant(False),
        components=(Component("count", Constant(1), 0, 1),),
        after=("status",),
    )


def test_a_flow_speaks_of_both_rows() -> None:
    query = compiled(
        "SELECT COUNT(*) FROM changes(patients) WHERE before.status = 'ill' AND after.ward = 'a'"
    )
    assert query.kind == "flow"
    assert set(query.before) == {"status"}
    assert set(query.after) == {"ward"}
    assert "present" not in str(query.cell)


def test_groups_make_the_product_of_their_domains() -> None:
    query = compiled(
        "SELECT ward, insured, COUNT(*) AS n FROM patients GROUP BY ward, insured",
        groups={"ward": ["a", "b"], "insured": [True, False]},
    )
    assert query.groups == (Group("ward", ("a", "b")), Group("insured", (True, False)))
    assert query.cells[1] == {"ward": "a", "insured": False}
    assert set(query.after) == {"ward", "insured"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), date_trunc('month', born) AS m FROM patients GROUP BY 2",
        "SELECT date_trunc('month', born) AS m, COUNT(*) FROM patients GROUP BY m",
        (
            "SELECT DATE_TRUNC('month', Patients.Born) AS m, COUNT(*) FROM patients GROUP BY "
            "(date_trunc('month', born))"
        ),
    ],
)
def test_a_group_is_named_by_position_alias_or_expression(sql: str) -> None:
    assert compiled(sql, groups={"m": ["2026-01-01"]}).groups == (Group("m", ("2026-01-01",)),)


def test_a_group_is_named_by_its_column() -> None:
    for sql in ("SELECT COUNT(*) FROM patients GROUP BY WARD",
                "SELECT ward AS ward, COUNT(*) FROM patients GROUP BY ward"):  # fmt: skip
        assert compiled(sql, groups={"ward": ["a"]}).groups == (Group("ward", ("a",)),)


@pytest.mark.parametrize(
    ("sql", "groups", "said"),
    [
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {},
         'sql: GROUP BY ward needs its public domain, which is never '
         'read from the data; add groups.ward = ["first", "second"]'),
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {"ward": []},
         "groups.ward: a domain is a list of at least one"),
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {"ward": "ab"},
         "groups.ward: a domain is a list of at least one"),
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {"ward": ["a", "a"]},
         "groups.ward: a value is declared twice"),
        ("SELECT COUNT(*) FROM patients GROUP BY cost", {"cost": ["1.0", "1"]},
         "groups.cost: a value is declared twice"),
        ("SELECT COUNT(*) FROM patients GROUP BY cost", {"cost": ["0", "-0.0"]},
         "groups.cost: a value is declared twice"),
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {"ward": ["a", 1]},
         "groups.ward: a domain is all text, all int"),
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {"ward": [True, 1]},
         "groups.ward: a domain is all text, all int"),
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {"ward": [None]},
         "groups.ward: a domain is all text, all int"),
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {"ward": ["\ud800"]},
         "groups.ward: '\\ud800' is not valid"),
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {"ward": [2**53 + 1]},
         "groups.ward: an integer is too large"),
        ("SELECT COUNT(*) FROM patients GROUP BY stay", {"stay": ["x"]}, "groups.stay: 'x' is not a number"),
        ("SELECT COUNT(*) FROM patients GROUP BY born", {"born": ["x"]},
         "groups.born: 'x' is not a date or time"),
        ("SELECT COUNT(*) FROM patients GROUP BY born", {"born": [1]},
         "groups.born: a number is needed here, not a date"),
        ("SELECT COUNT(*) FROM patients GROUP BY insured", {"insured": ["?"]},
         "groups.insured: '?' is neither 'true'"),
        ("SELECT COUNT(*) FROM patients GROUP BY photo", {"photo": ["x"]},
         "groups.photo: text is needed here, not a value"),
        ("SELECT COUNT(*) FROM patients", {"ward": ["a"]},
         "groups.ward: ward is no group: there is no GROUP BY"),
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {"ward": ["a"], "x": ["a"]},
         "groups.x: x is no group: the groups are ward"),
        ("SELECT COUNT(*) FROM patients GROUP BY ward", {"ward": ["a"], "Ward": ["b"]},
         "groups.Ward: Ward is no group"),
        ("SELECT ward, COUNT(*) FROM patients", {}, "sql: ward is selected but is not in GROUP BY"),
        ("SELECT COUNT(*) FROM patients GROUP BY 2", {}, "sql: GROUP BY 2: that is no group column"),
        ("SELECT ward, COUNT(*) FROM patients GROUP BY 2", {}, "sql: GROUP BY 2: that is no group column"),
        ("SELECT COUNT(*) FROM patients GROUP BY ward, ward", {"ward": ["a"]},
         "sql: two groups are called ward"),
        ("SELECT LOWER(ward) AS ward, COUNT(*) FROM patients GROUP BY ward", {"ward": ["a"]},
         "sql: GROUP BY ward may be the column or the alias"),
        ("SELECT COUNT(*) FROM patients GROUP BY LOWER(ward)", {"ward": ["a"]},
         "sql: GROUP BY LOWER(ward) needs a name: select it as LOWER(ward) AS name"),
        ("SELECT after.ward, before.ward, COUNT(*) FROM changes(patients) GROUP BY 1, 2", {"ward": ["a"]},
         "sql: two groups are called ward"),
        ("SELECT COUNT(*) FROM patients GROUP BY", {}, "sql: syntax error: GROUP BY names nothing"),
        ("SELECT COUNT(*) FROM patients GROUP BY stay, age", {"stay": range(1001), "age": range(1001)},
         "groups: the domains have more than 1000000 combinations"),
    ],
)  # fmt: skip
def test_domains_that_do_not_fit(sql: str, groups: dict[str, Any], said: str) -> None:
    assert refusal(sql, groups=groups).startswith(said)


def test_count_of_an_expression() -> None:
    (component,) = compiled("SELECT COUNT(age) FROM patients").components
    assert (component.name, component.lower, component.upper, component.grid) == ("count", 0, 1, Fraction(1))


def test_a_sum_is_measured_in_steps_of_its_grid() -> None:
    (component,) = compiled("SELECT SUM(age) FROM patients", bounds=AGE).components
    assert (component.name, component.lower, component.upper) == ("sum", 0, 110_000)
    assert (component.grid, component.centre) == (Fraction(1, 1000), Fraction(0))


def test_an_average_is_measured_from_the_middle() -> None:
    total, count = compiled("SELECT AVG(age) FROM patients", bounds=AGE).components
    assert (total.name, total.lower, total.upper, total.centre) == ("sum", -55_000, 55_000, Fraction(55))
    assert (count.name, count.lower, count.upper) == ("count", 0, 1)


@pytest.mark.parametrize(
    ("low", "high", "grid", "lower", "upper"),
    [
        ("0", "110", "1/1000", 0, 110_000),
        ("0", "99", "1/10000", 0, 990_000),
        ("-5", "3", "1/100000", -500_000, 300_000),
        ("0", "1/2", "1/1000000", 0, 500_000),
        ("0", "999999", "1", 0, 999_999),
        ("0", "1000000", "1", 0, 1_000_000),
        ("-1000000000000", "0", "1", -1_000_000_000_000, 0),
        ("0", "1/10000000", "1/1000000000", 0, 100),
        ("0", "100000.25", "1/100", 0, 10_000_025),
    ],
)
def test_the_default_grid_gives_six_digits(low: str, high: str, grid: str, lower: int, upper: int) -> None:
    (component,) = compiled(
        "SELECT SUM(age) FROM patients", bounds={"age": (Fraction(low), Fraction(high))}
    ).components
    assert (component.grid, component.lower, component.upper) == (Fraction(grid), lower, upper)


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT SUM(age) FROM patients", "age"),
        ("SELECT SUM(p.AGE) FROM patients p", "Age"),
        ("SELECT SUM(age) AS total FROM patients", "total"),
        ("SELECT SUM(age) AS total FROM patients", "age"),
        ("SELECT SUM(cost*stay) FROM patients", "cost * stay"),
        ("SELECT SUM(cost * stay) FROM patients", "COST*stay"),
        ("SELECT SUM(cost * stay) AS revenue FROM patients", "revenue"),
        ("SELECT SUM( Age::int + (1) ) FROM patients", "age::INT+(1)"),
        (
            "SELECT SUM(CASE WHEN status = 'a) b' THEN cost * stay * 2 + cost ELSE 0 END) FROM patients",
            "case when status = 'a) b' then cost*stay*2 + cost else 0 end",
        ),
        ("SELECT SUM(after.age) FROM changes(patients)", "age"),
        ("SELECT SUM(after.age) FROM changes(patients)", "after.age"),
    ],
)
def test_bounds_go_by_column_alias_or_text(sql: str, key: str) -> None:
    bounds, grids = {key: (Fraction(0), Fraction(9))}, {key: Fraction(3)}
    assert compiled(sql, bounds=bounds, grids=grids).components[0].upper == 3


@pytest.mark.parametrize(
    ("sql", "bounds", "grids", "said"),
    [
        ("SUM(age)", {}, {},
         "r.sql: SUM(age) needs the bounds of its values; add bounds.age = [lowest, highest]"),
        ("AVG(age + 1)", {}, {},
         'r.sql: AVG(age + 1) needs the bounds of its values; add bounds."age + 1" = [lowest, highest]'),
        ("AVG(age + 1) AS v", {}, {}, "r.sql: AVG(age + 1) needs the bounds of its values; add bounds.v ="),
        ("SUM(age)", {"agee": (0, 1)}, {}, "r.bounds.agee: nothing here is called agee; write bounds.age"),
        ("SUM(age) AS v", {"age": (0, 1), "v": (0, 1)}, {}, "r.bounds.age: bounds.v says it already"),
        ("SUM(age)", {"age": (0, 1)}, {"x": 1}, "r.grid.x: nothing here is called x; write grid.age"),
        ("COUNT(*)", {"age": (0, 1)}, {}, "r.bounds.age: COUNT(*) needs none; remove it"),
        ("COUNT(*)", {}, {"age": 1}, "r.grid.age: COUNT(*) needs none; remove it"),
        ("SUM(age)", {"age": (1, 0)}, {}, "r.bounds.age: the lower bound is above the upper one"),
        ("SUM(age)", {"age": (1, 1)}, {}, "r.bounds.age: the bounds are equal"),
        ("SUM(age)", {"age": (0, float("inf"))}, {}, "r.bounds.age: bounds are two finite numbers"),
        ("SUM(age)", {"age": (0, float("nan"))}, {}, "r.bounds.age: bounds are two finite numbers"),
        ("SUM(age)", {"age": (0, 1, 2)}, {}, "r.bounds.age: bounds are two finite numbers"),
        ("SUM(age)", {"age": 5}, {}, "r.bounds.age: bounds are two finite numbers"),
        ("SUM(age)", {"age": (0, Fraction(1, 3))}, {}, "r.bounds.age: the bounds have more than 9 digits"),
        ("SUM(age)", {"age": (0, 10)}, {"age": 3}, "r.bounds.age: the bounds do not lie on the grid 3"),
        ("SUM(age)", {"age": (0, 10)}, {"age": 0}, "r.grid.age: a grid lies above 0"),
        ("SUM(age)", {"age": (0, 10)}, {"age": float("nan")}, "r.grid.age: a grid is a finite number"),
        ("SUM(age)", {"age": (0, 10)}, {"age": Fraction(1, 10**20)},
         "r.grid.age: a grid lies above 0 and is a fraction"),
        ("SUM(age)", {"age": (0, 10**16)}, {}, "r.bounds.age: the bounds are more than 2^50 steps"),
        ("SUM(photo)", {"photo": (0, 1)}, {}, "r.sql: photo: a number is needed here, not a value"),
        ("SUM(born)", {"born": (0, 1)}, {}, "r.sql: born: a number is needed here, not a date"),
    ],
)  # fmt: skip
def test_bounds_that_do_not_fit(sql: str, bounds: dict[str, Any], grids: dict[str, Any], said: str) -> None:
    assert refusal(f"SELECT {sql} FROM patients", bounds=bounds, grids=grids, key="r.sql").startswith(said)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT COUNT(*) FROM patients WHERE statu = 'x'",
         "there is no column statu; did you mean status or stay?"),
        ("SELECT COUNT(*) FROM patients WHERE zzz = 'x'", "there is no column zzz; there is Mixed Case, age"),
        ('SELECT COUNT(*) FROM patients WHERE "WARD" = 1', "there is no column WARD; did you mean ward?"),
        ("SELECT COUNT(*) FROM patients WHERE other.ward = 1",
         "other.ward: a column is named alone or after patients."),
        ("SELECT COUNT(*) FROM patients p WHERE patients.ward = 1",
         "patients.ward: a column is named alone or after p."),
        ("SELECT COUNT(*) FROM patients WHERE a.b.ward = 1",
         "a.b.ward: a column is named alone or after patients."),
        ("SELECT COUNT(*) FROM patients WHERE after.ward = 1",
         "after.ward: old and new rows are there in a flow only"),
        ("SELECT COUNT(*) FROM changes(patients) WHERE ward = 'a'",
         "ward: a change has an old and a new row; write before.ward or after.ward"),
        ("SELECT COUNT(*) FROM changes(patients) WHERE before IS NULL",
         "before: test a column that is never empty in a row, such as the key: before.id IS NULL"),
        ("SELECT COUNT(*) FROM changes(patients) c",
         "a flow is read FROM changes(patients), with nothing more"),
        ("SELECT COUNT(*) FROM changes(doctors)", "FROM CHANGES(doctors) (the table is patients) is refused"),
        ("SELECT COUNT(*) FROM changes",
         "FROM changes is refused: FROM changes(patients) counts the changes of patients"),
        ("SELECT COUNT(*) FROM changes('patients')",
         "a flow is read FROM changes(patients), with nothing more"),
        ("SELECT COUNT(*) FROM 'patients.csv'", 'FROM "patients.csv" (the table is patients) is refused'),
        ("SELECT COUNT(*) FROM read_csv('x')", "FROM READ_CSV('x') (the table is patients) is refused"),
        ("SELECT COUNT(*) FROM patients p(a, b)", "a table alias with column names is refused"),
        ("SELECT COUNT(*) FROM patients WHERE stay",
         "stay: a condition is needed here, not an integer; write <> 0"),
        ("SELECT COUNT(*) FROM patients WHERE stay = 'x'", "stay = 'x': 'x' is not a number"),
        ("SELECT COUNT(*) FROM patients WHERE born > 'x'", "born > 'x': 'x' is not a date or time"),
        ("SELECT COUNT(*) FROM patients WHERE born > DATE '2026-02-30'",
         "CAST('2026-02-30' AS DATE): '2026-02-30' is not a date"),
        ("SELECT COUNT(*) FROM patients WHERE insured = 'x'",
         "insured = 'x': 'x' is neither 'true' nor 'false'"),
        ("SELECT COUNT(*) FROM patients WHERE insured = 1",
         "insured = 1: a boolean and an integer cannot be compared"),
        ("SELECT COUNT(*) FROM patients WHERE born = 1",
         "born = 1: a date and an integer cannot be compared"),
        ("SELECT COUNT(*) FROM patients WHERE photo = 'x'",
         "photo = 'x': a value that can only be tested for NULL and"),
        ("SELECT COUNT(*) FROM patients WHERE seen - seen > 1",
         "seen - seen: a time - a time is not defined"),
        ("SELECT COUNT(*) FROM patients WHERE born * 2 > 1", "born * 2: a date * an integer is not defined"),
        ("SELECT COUNT(*) FROM patients WHERE cost // 2 > 1", "cost // 2: // divides integers"),
        ("SELECT COUNT(*) FROM patients WHERE cost > 1e999", "1e999: a number must be finite"),
        ("SELECT COUNT(*) FROM patients WHERE ROUND(cost, stay) > 1",
         "ROUND(cost, stay): the number of digits"),
        ("SELECT COUNT(*) FROM patients WHERE stay IN ()", "stay IN (): IN needs a list of values"),
        ("SELECT COUNT(*) FROM patients WHERE stay IN ward", "FIELD in stay IN ward is refused"),
        ("SELECT COUNT(*) FROM patients WHERE stay IN (SELECT 1)",
         "(SELECT 1) is refused: the contribution of a row"),
        ("SELECT COUNT(*) FROM patients WHERE stay BETWEEN SYMMETRIC 3 AND 1",
         "SYMMETRIC in (stay BETWEEN 3 AND 1"),
        ("SELECT COUNT(*) FROM patients WHERE ward LIKE 'a!' ESCAPE '!'",
         "ward LIKE 'a!' is refused: the pattern"),
        ("SELECT COUNT(*) FROM patients WHERE ward LIKE 'a' ESCAPE '!!'",
         "ward LIKE 'a' ESCAPE '!!' is refused: the pat"),
        ("SELECT COUNT(*) FROM patients WHERE seen + INTERVAL '3 moons' > seen",
         "INTERVAL '3' MOONS: an interval is whole"),
        ("SELECT COUNT(*) FROM patients WHERE seen + INTERVAL (stay) DAY > seen",
         "INTERVAL (stay) DAY: an interval is"),
        ("SELECT COUNT(*) FROM patients WHERE date_trunc('eon', seen) > seen",
         "DATE_TRUNC('EON', seen): 'eon' is no unit"),
        ("SELECT COUNT(*) FROM patients WHERE date_part('epoch', seen) > 1",
         "DATE_PART('epoch', seen): 'epoch' is no unit"),
        ("SELECT COUNT(*) FROM patients WHERE uuid() = ward",
         "UUID() is refused: it gives another answer each time"),
        ("SELECT COUNT(*) FROM patients WHERE now() > seen",
         "NOW() is refused: it gives another answer each time"),
        ("SELECT COUNT(*) FROM patients WHERE ward COLLATE nocase = 'a'", "ward COLLATE nocase is refused"),
        ("SELECT COUNT(*) FROM patients WHERE photo[1] = 'a'", "photo[1] is refused"),
        ("SELECT COUNT(*) FROM patients WHERE CAST(ward AS INT[]) IS NULL",
         "CAST to INT[] is refused: CAST takes"),
        ("SELECT COUNT(*) FROM patients WHERE CAST(ward AS DECIMAL(39, 2)) = 1",
         "CAST to DECIMAL(39, 2) is refused"),
        ("SELECT COUNT(*) FROM patients WHERE CAST(ward AS DECIMAL(2, 3)) = 1",
         "CAST to DECIMAL(2, 3) is refused"),
        ("SELECT COUNT(*) FROM patients WHERE CAST(born AS INT) = 1",
         "CAST(born AS INT): a date cannot be CAST to INT"),
        ("SELECT COUNT(*) FROM patients WHERE CAST(photo AS VARCHAR) = ''",
         "CAST(photo AS TEXT): a value that can only"),
        ("SELECT COUNT(DISTINCT ward) FROM patients", "COUNT(DISTINCT ward) is refused: whether a row"),
        ("SELECT COUNT(ward, stay) FROM patients", "COUNT(ward, stay) is refused: it is not among"),
        ("SELECT SUM(*) FROM patients", "* is refused: name what is wanted"),
        ("SELECT patients.*, COUNT(*) FROM patients GROUP BY 1", "* is refused: name what is wanted"),
        ("SELECT mean(stay) FROM patients",
         "SELECT MEAN(stay) without an aggregate is refused: publish exactly one"),
        ("SELECT MEDIAN(stay) FROM patients", "MEDIAN(stay) is refused: it is not a sum over the rows"),
        ("SELECT ANY_VALUE(stay) FROM patients", "ANY_VALUE(stay) is refused: it is not a sum over the rows"),
        ("SELECT ROUND(AVG(stay)) FROM patients",
         "ROUND(AVG(stay)) is refused: noise is added to the aggregate"),
        ("SELECT COUNT(*) FILTER (WHERE MAX(stay) > 1) FROM patients",
         "MAX(stay) is refused: WHERE and GROUP BY look"),
        ("SELECT COUNT(*) FROM patients GROUP BY ALL", "GROUP BY ALL is refused: a row is in one group only"),
        ("SELECT COUNT(*) FROM patients FOR UPDATE", "LOCKS is refused: it is no part of a linear query"),
        ("SELECT COUNT(*) FROM unnest([1])", "UNNEST([1]) is refused: a release reads the table"),
        ("SELECT COUNT(patients.*) FROM patients", "patients.* is refused: name what is wanted"),
        ("SELECT COUNT(*) FROM patients WHERE ward IS JSON", "ward IS JSON is refused: it is not among"),
        ("SELECT COUNT(*) FROM patients WHERE date_add(born, 3) > born", "born + INTERVAL 3 DAY is refused"),
        ("SELECT COUNT(*) FROM patients WHERE year(stay) = 1",
         "YEAR(stay): a date or time is needed here, not an integer"),
        (f"SELECT COUNT(*) FROM patients WHERE stay = {10**400}",
         f"{str(10**400)[:57]}...: a number must be finite"),
        ("WITH a AS (SELECT 1) DELETE FROM patients", "DELETE is refused: a release is one SELECT"),
        ("SELECT COUNT(*) FROM patients, doctors", "a second table is refused: a release reads one table"),
        ("(SELECT COUNT(*) FROM patients)", "a SELECT in parentheses is refused"),
        ("", "an empty text is refused: a release is one SELECT"),
        ("-- nothing", "an empty text is refused: a release is one SELECT"),
        ("SELECT COUNT(*) FROM patients WHERE ward = 'a",
         "syntax error in line 1, column 44: ' is not closed"),
        ("SELECT COUNT(*)\nFROM patients\nWHERE ward =\n  'it''s\nnot closed",
         "syntax error in line 4, column 3: ' is not closed"),
        ("SELECT COUNT(*)\nFROM patients WHERE \"ward = 'a'",
         'syntax error in line 2, column 21: " is not closed'),
        ("SELECT COUNT(*) /* FROM patients", "syntax error in line 1, column 17: /* is not closed"),
        ("SELECT COUNT(* FROM patients", "syntax error in line 1, column 16, at 'FROM': expecting )"),
        ("SELECT COUNT(*)\nFROM patients\nWHERE (",
         "syntax error in line 3, column 7, at '(': something is missing"),
        ("SELECT COUNT(*) FROM", "syntax error in line 1, column 17, at 'FROM': expected table name"),
        ("SELECT COUNT(*) FROM patients WHERE " + "(" * 5000 + "1" + ")" * 5000,
         "the SELECT is nested too deeply"),
        ("SELECT COUNT(*) FROM patients WHERE " + "1 + " * 5000 + "1 = 1", "the SELECT is nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_said(sql: str, said: str) -> None:
    assert refusal(sql).removeprefix("sql: ").startswith(said)


def test_an_ambiguous_name_must_be_quoted() -> None:
    columns = {"a": "VARCHAR", "A": "VARCHAR"}
    assert refusal("SELECT COUNT(a) FROM patients", columns=columns) == (
        'sql: a may be "a" or "A"; put the one that is meant in quotes'
    )
    assert compiled('SELECT COUNT("A") FROM patients', columns=columns).after == ("A",)


def test_names_are_only_names() -> None:
    query = compiled(f'''SELECT COUNT("{ODD.replace('"', '""')}") FROM patients WHERE "Mixed Case" = 1''')
    assert set(query.after) == {ODD, "Mixed Case"}
    assert 'after."x""; drop table y; --"' in render(query.components[0].value)


@pytest.mark.parametrize(
    ("table", "sql"),
    [
        ("patients", "SELECT COUNT(*) FROM PATIENTS"),
        ("Patients", "SELECT COUNT(*) FROM patients WHERE patients.ward = 'a'"),
        ("my table; --", 'SELECT COUNT(*) FROM "my table; --"'),
        ("my table; --", 'SELECT COUNT(*) FROM changes("my table; --")'),
        ("public.patients", "SELECT COUNT(*) FROM public.patients WHERE patients.ward = 'a'"),
        ("public.patients", "SELECT COUNT(*) FROM changes(public.patients)"),
        ("changes", "SELECT COUNT(*) FROM changes"),
        ("changes", "SELECT COUNT(*) FROM changes(changes)"),
        ("before", "SELECT COUNT(*) FROM changes(before) WHERE before.ward = 'a'"),
    ],
)
def test_tables_by_any_name(table: str, sql: str) -> None:
    assert compiled(sql, table=table).table == table


def test_a_quoted_table_keeps_its_case() -> None:
    assert 'FROM "Patients" (the table is patients) is refused' in refusal('SELECT COUNT(*) FROM "Patients"')


def test_formatting_is_no_change() -> None:
    texts = {
        compiled(sql, groups={"ward": ["a"]}, bounds=AGE).text
        for sql in (
            "SELECT ward, SUM(age) AS total FROM patients WHERE status='it''s' AND stay>=1.50 GROUP BY ward",
            "select WARD,sum(Age)as Total\nfrom PATIENTS -- why\n"
            "where Status = 'it''s'\n and stay >= 1.50 group by ward;",
        )
    }
    assert texts == {
        "select ward, sum(age) as total from patients where status = 'it''s' and stay >= 1.50 group by ward"
    }
    (text,) = texts
    assert compiled(text, groups={"ward": ["a"]}, bounds=AGE).text == text


@pytest.mark.parametrize(
    ("one", "other"), [("ward = 'a'", "ward = 'A'"), ('"ward" = 1', "ward = 2"), ("stay > 1", "stay >= 1")]
)
def test_another_question_is_another_text(one: str, other: str) -> None:
    texts = {compiled(f"SELECT COUNT(*) FROM patients WHERE {where}").text for where in (one, other)}
    assert len(texts) == 2


def test_dialects() -> None:
    halved = "SELECT COUNT(*) FROM patients WHERE stay / 2 = 1"
    assert '["div",' in str(compiled(halved, dialect="postgres").cell)
    assert '["div",' in str(compiled(halved, dialect="sqlite").cell)
    assert '["/",' in str(compiled(halved).cell)
    escaped = compiled(r"SELECT COUNT(*) FROM patients WHERE ward LIKE 'a\_'", dialect="postgres").cell
    assert "ESCAPE '\\'" in render(escaped)
    assert "ILIKE" in render(
        compiled("SELECT COUNT(*) FROM patients WHERE ward LIKE 'a%'", dialect="sqlite").cell
    )
    assert "dialect 'mysql' is not supported" in refusal("SELECT COUNT(*) FROM patients", dialect="mysql")


def test_errors_carry_the_key_of_what_is_wrong() -> None:
    with pytest.raises(QueryError) as caught:
        compiled("SELECT COUNT(*) FROM patients", bounds=AGE, key="release.mean.sql")
    assert caught.value.key == "release.mean.bounds.age"
    with pytest.raises(QueryError) as caught:
        compiled("SELECT MAX(age) FROM patients", key="release.mean.sql")
    assert caught.value.key == "release.mean.sql"


@pytest.mark.parametrize(
    ("declared", "dialect"),
    [
        ({"kind": "postgres", "dsn": "env:DSN", "table": "t", "entry": "id"}, "postgres"),
        ({"kind": "sqlite", "path": "a.db", "table": "t"}, "sqlite"),
        ({"kind": "files", "path": "a.csv", "time": "at", "entry": "id"}, "duckdb"),
        ({"kind": "files", "path": "a.csv", "time": "at", "entry": "id", "dialect": "postgres"}, "postgres"),
        ({"kind": "snapshots", "of": "parquet", "path": "a", "table": "t", "entry": "id"}, "duckdb"),
        ({"kind": "snapshots", "of": "sqlite", "path": "a", "table": "t", "entry": "id"}, "sqlite"),
    ],
)
def test_a_select_is_read_in_the_dialect_of_its_source(declared: dict[str, str], dialect: str) -> None:
    assert TypeAdapter(DeclaredSource).validate_python(declared).speaks == dialect
