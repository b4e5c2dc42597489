"""What a file's columns are taken for."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.errors import SourceError
from tidegauge.source.files.sniff import sniff
from tidegauge.source.files.source import Files
from tidegauge.source.files.suggestion import Shape, Suggestion


def test_a_value_change_log(tmp_path: Path) -> None:
    rows = ["2026-01-01,7,I,p1,,,ill,30,true,007,2026-01-01",
            "2026-01-02,7,u,p1,ill,30,well,31,false,008,2026-01-02",
            "2026-01-03,7,D,p1,well,31,,,,,"]  # fmt: skip
    head = "ts,entry,op,person,before_status,before_age,after_status,after_age,after_new,after_zip,after_seen"
    (tmp_path / "t.csv").write_text("\n".join([head, *rows]))
    found = sniff(tmp_path / "t.csv")
    assert (found.time, found.key, found.unit, found.op) == ("ts", "entry", "person", "op")
    assert (found.before, found.after) == ("before_", "after_")
    assert found.types == {"person": "text", "status": "text", "age": "integer", "new": "boolean",
                           "zip": "text",
                           "seen": "date"}  # fmt: skip
    assert found.values == {"person": ("p1",), "status": ("ill", "well"), "zip": ("007", "008")}
    source = Files("t.csv", time="ts", key="entry", unit=found.unit, op=found.op, before=found.before,
                   after=found.after, types=found.types, base=tmp_path)  # fmt: skip
    assert list(source.columns) == ["entry", *found.types]
    assert not any(one.values for one in source.unread().values())


def test_new_values_without_a_prefix(tmp_path: Path) -> None:
    lines = [
        f'{{"at": "2026-01-01T00:00:{place:02}Z", "id": {place}, "x": {place}.5, "n": "name {place}"}}'
        for place in range(30)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    found = sniff(tmp_path / "t.jsonl")
    assert (found.time, found.key, found.unit, found.op, found.before, found.after) == (
        "at",
        "id",
        *[None] * 4,
    )
    assert found.types == {"x": "number", "n": "text"}
    assert found.values == {}


def test_parquet_has_types_of_its_own(tmp_path: Path) -> None:
    table = pa.table(
        {"updated_at": pa.array([0], pa.timestamp("us")), "pk": [1], "new_user_id": ["u"], "new_n": [5]}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    found = sniff(tmp_path / "t.parquet")
    assert (found.time, found.key, found.unit, found.after) == ("updated_at", "pk", "user_id", "new_")
    assert found.types == {"user_id": "text"}


def found_in(folder: Path, text: str, name: str = "t.csv") -> Suggestion:
    (folder / name).write_text(text)
    return sniff(folder / name)


def lines(header: str, row: str, rows: int = 40) -> str:
    """So many rows: {n} is the number of a row, {d} a day up to 28, {m} a month."""
    filled = (row.format(n=n, d=n % 28 + 1, m=n % 12 + 1, k=n % 7) for n in range(rows))
    return "\n".join([header, *filled, ""])


@pytest.mark.parametrize("sign", [";", "\t", "|", ","])
def test_delimiters(tmp_path: Path, sign: str) -> None:
    text = lines("ts,id,status", "2026-01-{d:02},{n},a").replace(",", sign)
    found = found_in(tmp_path, "\ufeff" + text)
    assert found.notation.delimiter == (None if sign == "," else sign)
    assert (found.time, found.key, found.shape) == ("ts", "id", Shape.CHANGES)


@pytest.mark.parametrize(
    ("text", "decimal", "thousands", "unsure"),
    [
        ("ts;id;x\n2026-01-01;1;3,5\n2026-01-02;2;12\n", ",", None, False),
        ("ts;id;x\n2026-01-01;1;1.234,56\n2026-01-02;2;12,5\n", ",", ".", False),
        ("ts;id;x;y\n2026-01-01;1;3,5;1.234\n2026-01-02;2;4,5;2.000\n", ",", ".", True),
        ('ts,id,x\n2026-01-01,1,"1,234.56"\n2026-01-02,2,12.5\n', ".", ",", False),
        ('ts,id,x\n2026-01-01,1,"1,234"\n2026-01-02,2,"5,678"\n', ".", ",", True),
        ("ts;id;x\n2026-01-01;1;1,234\n2026-01-02;2;5,678\n", ",", None, True),
        ("ts,id,x\n2026-01-01,1,1'234.5\n2026-01-02,2,12.5\n", ".", "'", False),
        ("ts,id,x\n2026-01-01,1,3.5\n2026-01-02,2,12\n", ".", None, False),
    ],
)  # fmt: skip
def test_numbers(tmp_path: Path, text: str, decimal: str, thousands: str | None, *, unsure: bool) -> None:
    found = found_in(tmp_path, text)
    assert (found.notation.decimal, found.notation.thousands) == (decimal, thousands)
    assert found.types["x"] in ("number", "integer")
    assert "x" in found.numbers
    assert bool(found.unsure) == unsure


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("{d:02}.{m:02}.2026", "%d.%m.%Y"),
        ("{m:02}/{d:02}/2026", "%m/%d/%Y"),
        ("{d}/{m}/26 9:05", "%d/%m/%y %H:%M"),
        ("{m}/{d}/2026 9:05:07 PM", "%m/%d/%Y %I:%M:%S %p"),
        ("{d:02}-Mar-2026", "%d-%b-%Y"),
        ("2026/{m:02}/{d:02}", "%Y/%m/%d"),
        ("202601{d:02}", "%Y%m%d"),
    ],
)
def test_dates(tmp_path: Path, written: str, form: str) -> None:
    found = found_in(tmp_path, lines("date,id,status", f"{written},{{n}},a"))
    assert (found.notation.date_format, found.time, found.unsure) == ((form,), "date", ())


def test_dates_that_may_be_either(tmp_path: Path) -> None:
    """Dots mean that the day is first; slashes that the month is, unless the order of the rows shows more."""
    dots = found_in(tmp_path, "date,id\n05.04.2026,1\n01.02.2026,2\n03.01.2026,3\n")
    assert dots.notation.date_format == ("%d.%m.%Y",)
    assert "day and month cannot be distinguished" in dots.unsure[0]
    slashes = found_in(tmp_path, "date,id\n05/04/2026,1\n01/02/2026,2\n03/01/2026,3\n")
    assert slashes.notation.date_format == ("%m/%d/%Y",)
    assert 'date_format = "%d/%m/%Y"' in slashes.unsure[0]
    rising = found_in(tmp_path, "date,id\n11/01/2026,1\n12/01/2026,2\n01/02/2026,3\n")
    assert rising.notation.date_format == ("%d/%m/%Y",)
    assert rising.unsure == ()


@pytest.mark.parametrize(
    ("scale", "unit"), [(1, "seconds"), (1000, "milliseconds"), (1_000_000, "microseconds")]
)
def test_numbers_since_1970(tmp_path: Path, scale: int, unit: str) -> None:
    rows = "".join(f"{(1_767_225_600 + n) * scale},{n}\n" for n in range(5))
    found = found_in(tmp_path, "ts,id\n" + rows)
    assert (found.time, found.time_unit) == ("ts", unit)
    assert found.times.first == 1_767_225_600_000_000


VERSIONS = (
    "person_id,city,{},{},is_current\n"
    "1,a,2026-01-01,2026-02-01,false\n1,b,2026-02-01,,true\n2,c,2026-01-05,,true\n"
)


@pytest.mark.parametrize(
    ("pair", "sure"),
    [
        (("valid_from", "valid_to"), True),
        (("dbt_valid_from", "dbt_valid_to"), True),
        (("Valid From", "Valid To"), True),
        (("effective_from", "effective_to"), True),
        (("start_date", "end_date"), False),
    ],
)
def test_versions(tmp_path: Path, pair: tuple[str, str], *, sure: bool) -> None:
    found = found_in(tmp_path, VERSIONS.format(*pair))
    assert found.shape is Shape.VERSIONS
    assert (found.valid_from, found.valid_to, found.key, found.unit) == (*pair, "person_id", None)
    assert (found.current, found.inclusive) == ("is_current", False)
    assert (found.unsure == ()) == sure
    last_day = found_in(tmp_path, VERSIONS.format(*pair).replace("2026-02-01,false", "2026-01-31,false"))
    assert last_day.inclusive


def test_the_name_that_dbt_gives_a_version_is_no_key(tmp_path: Path) -> None:
    text = (
        "customer_id,plan,dbt_scd_id,dbt_valid_from,dbt_valid_to\n"
        "1,free,a1,2026-01-01,2026-02-01\n1,paid,b7,2026-02-01,\n2,free,c3,2026-01-05,\n"
    )
    found = found_in(tmp_path, text)
    assert (found.shape, found.key, found.unit) == (Shape.VERSIONS, "customer_id", None)


@pytest.mark.parametrize(("gap", "inclusive"), [(0, False), (1, True)])
def test_versions_whatever_the_names_of_their_times(tmp_path: Path, gap: int, *, inclusive: bool) -> None:
    """A row that ends when the next of its key begins, or the day before, is a version."""
    rows = ["member_no;state;anfang;ende"]
    for member in range(8):
        days = [date(2026, 1, 1) + timedelta(days=member + 9 * n) for n in range(4)]
        ended = [*(day - timedelta(days=gap) for day in days[1:]), ""]
        rows += [f"{member};a;{begin};{end}" for begin, end in zip(days, ended, strict=True)]
    path = tmp_path / "versions.csv"
    path.write_text("\n".join(rows), "utf-8")
    found = sniff(path)
    assert (found.shape, found.key) == (Shape.VERSIONS, "member_no")
    assert (found.valid_from, found.valid_to, found.inclusive) == ("anfang", "ende", inclusive)
    assert any("--kind files" in one for one in found.unsure)
    assert sniff(path, changes_only=True).shape is Shape.CHANGES


def test_two_times_that_do_not_touch_make_no_versions(tmp_path: Path) -> None:
    rows = ["order_no,booked,sent"]
    rows += [f"{n % 5},2026-01-{n + 1:02d},2026-02-{n + 1:02d}" for n in range(25)]
    path = tmp_path / "orders.csv"
    path.write_text("\n".join(rows), "utf-8")
    assert sniff(path).shape is Shape.CHANGES


def test_pictures(tmp_path: Path) -> None:
    """By the name of the date, or because every key occurs at every time."""
    text = "".join(f"2026-01-{day:02},{key},a\n" for day in range(1, 9) for key in range(5))
    found = found_in(tmp_path, "snapshot_date,id,s\n" + text)
    assert (found.shape, found.time, found.every, found.unsure) == (
        Shape.PICTURES,
        "snapshot_date",
        "1 day",
        (),
    )
    dense = found_in(tmp_path, "date,id,s\n" + text)
    assert (dense.shape, dense.every) == (Shape.PICTURES, "1 day")
    assert "--kind files" in dense.unsure[0]
    monthly = "".join(f"2026-{month:02}-01,1,a\n" for month in range(1, 9))
    assert found_in(tmp_path, "as_of,id,s\n" + monthly).every == "1 month"
    gaps = found_in(tmp_path, "as_of,id,s\n2026-01-01,1,a\n2026-01-02,1,a\n2026-01-05,1,a\n")
    assert gaps.every == "3 days"
    assert "not equally far apart" in gaps.unsure[0]


def test_an_event_log(tmp_path: Path) -> None:
    found = found_in(
        tmp_path,
        "when,record_id,customer_id,action,amount\n"
        "2026-01-01 10:00,1,7,Created,5\n2026-01-02 10:00,1,7,deleted,\n",
    )
    assert (found.time, found.key, found.unit, found.op) == ("when", "record_id", "customer_id", "action")
    assert found.shape is Shape.CHANGES
    assert found.numbers[0] == "customer_id", "numbers as they are; the template leaves out keys and units"


def test_a_table_without_times(tmp_path: Path) -> None:
    found = found_in(tmp_path, "id,name,birth_date\n1,a,1970-01-01\n2,b,1980-01-01\n")
    assert (found.shape, found.time, found.key) == (Shape.TABLE, None, "id")
    assert found.types["birth_date"] == "date"


def test_empty_values_and_zones(tmp_path: Path) -> None:
    found = found_in(tmp_path, "time (Europe/Berlin),id,age\n2026-01-01 00:00,1,NA\n2026-01-02 00:00,2,31\n")
    assert found.types["age"] == "integer"
    assert found.notation.nulls == ("NA",)
    assert found.notation.time_zone == "Europe/Berlin"
    assert found.times.first == 1_767_222_000_000_000
    assert found_in(tmp_path, "ts,id\n2026-01-01T00:00:00+02:00,1\n").zoned


def test_how_many_rows_and_changes_a_person_has(tmp_path: Path) -> None:
    rows = "".join(f"2026-01-{n % 28 + 1:02},{n},{n % 10}\n" for n in range(70))
    found = found_in(tmp_path, "ts,id,user_id\n" + rows)
    assert (found.unit, found.max_rows, found.changes) == ("user_id", 10, 8)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-01-01,1,Jane Doe\n2026-01-02,2,John\n", "line 1: the first line seems to be data"),
        ("1,2,Jane Doe\n3,4,John\n", "line 1: the first line seems to be data"),
        ("date,id\n13/01/2026,1\n01/13/2026,2\n", "line 2: column 'date' looks like a time"),
        ("ts,id\n2026-01-01,1\n2026-02-30,2\n", "line 3: column 'ts' looks like a time"),
    ],
)
def test_what_cannot_be_guessed(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SourceError) as error:
        found_in(tmp_path, text)
    assert said in str(error.value)
    assert "Jane" not in str(error.value)


def test_one_bad_date_among_many(tmp_path: Path) -> None:
    """The column is still the time; the first run says which line is wrong."""
    found = found_in(tmp_path, lines("ts,id", "2026-01-{d:02},{n}") + "2026-02-30,x\n")
    assert found.time == "ts"
    assert "some values are no times" in found.unsure[0]


@pytest.mark.parametrize(("name", "content"), [("t.csv", "a,b\n"), ("t.jsonl", "")])
def test_nothing_to_look_at(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    found = sniff(tmp_path / name)
    assert found.time is None
    assert found.key == ("a" if content else None)


def test_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no such file"):
        sniff(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("*_before", "*_after"), ("*_old", "*_new"), ("*.before", "*.after"), ("* before", "* after"),
        ("*Before", "*After"), ("*_BEFORE", "*_AFTER"), ("OLD_", "NEW_"), ("old ", "new "),
    ],
)  # fmt: skip
def test_pairs_of_columns(tmp_path: Path, old: str, new: str) -> None:
    def named(affix: str, name: str) -> str:
        return name + affix[1:] if affix.startswith("*") else affix + name

    columns = [named(affix, name) for name in ("status", "age") for affix in (old, new)]
    head = ",".join(["ts", "id", *columns, "oldest", "anew"])
    rows = ["2026-01-01,7,,ill,,30,no,3", "2026-01-02,7,ill,well,30,31,no,3", "2026-01-03,7,well,,31,,no,3"]
    found = found_in(tmp_path, "\n".join([head, *rows, ""]))
    assert (found.shape, found.before, found.after) == (Shape.CHANGES, old, new)
    assert set(found.types) == {"status", "age", "oldest", "anew"}
    assert not any("has no" in one for one in found.unsure)
    source = Files("t.csv", time="ts", key="id", before=found.before, after=found.after, types=found.types,
                   base=tmp_path)  # fmt: skip
    changes = [row for batch in source.read(None, 2**60) for row in batch.rows.to_pylist()]
    sides = [tuple(side and side["status"] for side in (row["before"], row["after"])) for row in changes]
    assert sides == [(None, "ill"), ("ill", "well"), ("well", None)], "the last row is a deletion"


def test_an_ending_without_its_partner_is_said(tmp_path: Path) -> None:
    found = found_in(tmp_path, lines("ts,id,x_old,x_new,is_new", "2026-01-{d:02},{n},a{k},b{k},yes"))
    assert (found.before, found.after) == ("*_old", "*_new")
    assert any(one.startswith("'is_new' is read as a new or old value") for one in found.unsure)


@pytest.mark.parametrize("columns", ["is_new,years_old", "status_old,is_new", "due_before,seen_after"])
def test_endings_that_are_no_pair(tmp_path: Path, columns: str) -> None:
    found = found_in(tmp_path, lines(f"ts,id,{columns}", "2026-01-{d:02},{n},a{k},b{k}"))
    assert (found.before, found.after) == (None, None)
    assert set(found.types) == set(columns.split(","))


def marked(*words: str) -> str:
    rows = [f"{n},rome,2026-01-{n % 28 + 1:02},{words[0]}\n{n},oslo,2026-02-03,{words[1]}" for n in range(20)]
    return "\n".join(["id,city,valid_from,is_current", *rows, ""])


@pytest.mark.parametrize("words", [("false", "true"), ("0", "1"), ("N", "Y"), ("no", "Yes")])
def test_versions_that_are_marked_and_do_not_end(tmp_path: Path, words: tuple[str, str]) -> None:
    found = found_in(tmp_path, marked(*words))
    assert (found.shape, found.key, found.valid_from) == (Shape.VERSIONS, "id", "valid_from")
    assert (found.valid_to, found.current) == (None, "is_current")
    assert any("no column says when a version ends" in one for one in found.unsure)
    assert "is_current" not in found.types


def test_marks_that_are_not_known_are_not_taken_for_marks(tmp_path: Path) -> None:
    assert found_in(tmp_path, marked("past", "present")).shape is not Shape.VERSIONS
