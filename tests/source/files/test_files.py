"""What a source of kind files delivers."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.errors import SourceError, SpecError
from tidegauge.model.quantity import instant
from tidegauge.source.batch import workbench
from tidegauge.source.files.source import Files
from tidegauge.source.files.unread import Unread

if TYPE_CHECKING:
    from tidegauge.model.mutation import Source

EVER = instant("9999-12-31")

CHANGES = """\
ts,entry,op,person,before_status,before_age,after_status,after_age
2026-01-01,7,I,p,,,ill,30
2026-01-02T08:00:00+02:00,7,U,p,ill,30,well,31
2026-01-03 00:00:00.5,7,D,p,well,31,,
"""


def rows(source: Source, position: str | None = None, until: int = EVER) -> list[dict[str, Any]]:
    return [row for batch in source.read(position, until) for row in batch.rows.to_pylist()]


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") and data[:2] != b"\x1f\x8b" else data)
    return path


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def test_value_change_format(tmp_path: Path) -> None:
    write(tmp_path, "patients.csv", CHANGES)
    source = Files("patients.csv", time="ts", key="entry", unit="person", op="op", before="before_",
                   after="after_",
                   types={"age": "integer"}, base=tmp_path)  # fmt: skip
    assert source.table == "patients"
    assert source.columns == {"entry": "VARCHAR", "person": "VARCHAR", "status": "VARCHAR", "age": "BIGINT"}
    ill = {"entry": "7", "person": "p", "status": "ill", "age": 30}
    well = ill | {"status": "well", "age": 31}
    common = {"entry": "7", "unit": "p", "informed": True}
    assert rows(source) == [
        {"time": instant("2026-01-01"), "before": None, "after": ill} | common,
        {"time": instant("2026-01-02T06:00:00Z"), "before": ill, "after": well} | common,
        {"time": instant("2026-01-03T00:00:00.5"), "before": well, "after": None} | common,
    ]


def test_contract_of_a_batch(tmp_path: Path) -> None:
    write(tmp_path, "patients.csv", CHANGES)
    source = Files("patients.csv", time="ts", key="entry", base=tmp_path)
    for until in (0, EVER):
        (batch,) = source.read(None, until)
        struct = pa.struct([(name, pa.string()) for name in source.columns])
        assert batch.upto == until
        assert dict(zip(batch.rows.schema.names, batch.rows.schema.types, strict=True)) == {
            "time": pa.int64(), "entry": pa.string(), "unit": pa.string(), "before": struct, "after": struct,
            "informed": pa.bool_(),
        }  # fmt: skip


def test_empty_sides_mean_insertion_and_deletion_without_an_op(tmp_path: Path) -> None:
    write(tmp_path, "t.csv", "ts,entry,before_a,before_b,after_a,after_b\n"
          "2026-01-01,1,,,x,\n2026-01-02,1,x,,,y\n2026-01-03,1,,y,,\n2026-01-04,2,,,,\n")  # fmt: skip
    found = rows(Files("t.csv", time="ts", key="entry", before="before_", after="after_", base=tmp_path))
    assert [(row["before"] is None, row["after"] is None) for row in found] == [
        (True, False), (False, False), (False, True), (True, True),
    ]  # fmt: skip
    assert all(row["informed"] for row in found)
    assert found[1]["after"] == {"entry": "1", "a": None, "b": "y"}


def test_an_op_says_that_a_row_of_nulls_is_a_row(tmp_path: Path) -> None:
    words = ["I", "insert", "c", "create", "r", "READ", "u", "Update", "d", " delete "]
    lines = [f"2026-01-{day:02},1,{word},,," for day, word in enumerate(words, start=1)]
    write(tmp_path, "t.csv", "\n".join(["ts,entry,what,before_a,after_a,note", *lines]))
    found = rows(
        Files("t.csv", time="ts", key="entry", before="before_", after="after_", op="what", base=tmp_path)
    )
    assert [row["before"] is None for row in found] == [True] * 6 + [False] * 4
    assert [row["after"] is None for row in found] == [False] * 8 + [True] * 2


@pytest.mark.parametrize("prefix", ["", "after_"])
def test_new_value_format(tmp_path: Path, prefix: str) -> None:
    write(tmp_path, "t.csv", f"ts,id,{prefix}a,person\n2026-01-01,1,x,p\n2026-01-02,1,,p\n2026-01-03,1,,\n")
    source = Files("t.csv", time="ts", key="id", after=prefix or None, unit="person", base=tmp_path)
    assert [(row["unit"], row["before"], row["after"], row["informed"]) for row in rows(source)] == [
        ("p", None, {"id": "1", "person": "p", "a": "x"}, False),
        ("p", None, None, False),
        (None, None, None, False),  # a deletion need not say whose row it was: the state knows
    ]


def test_a_file_without_columns_of_its_own_still_counts_rows(tmp_path: Path) -> None:
    write(tmp_path, "t.csv", "ts,entry,op\n2026-01-01,1,I\n2026-01-02,1,D\n")
    found = rows(Files("t.csv", time="ts", key="entry", op="op", base=tmp_path))
    assert [row["after"] for row in found] == [{"entry": "1"}, None]


def test_a_unit_among_the_prefixed_columns(tmp_path: Path) -> None:
    write(
        tmp_path,
        "t.csv",
        "ts,entry,before_who,after_who\n2026-01-01,1,,p\n2026-01-02,1,p,q\n2026-01-03,1,q,\n",
    )
    source = Files(
        "t.csv", time="ts", key="entry", unit="who", before="before_", after="after_", base=tmp_path
    )
    assert [row["unit"] for row in rows(source)] == ["p", "q", "q"]


@pytest.mark.parametrize("after", ["", "after_"])
def test_an_update_that_empties_the_unit_leaves_the_row_without_a_unit(tmp_path: Path, after: str) -> None:
    head = f"ts,entry,before_team,{after}team,before_n,{after}n\n"
    log = f"{head}2026-01-01,r1,,A,,1\n2026-01-02,r1,A,,1,1\n2026-01-03,r1,,,1,\n"
    write(tmp_path, "t.csv", log)
    source = Files(
        "t.csv", time="ts", key="entry", unit="team", before="before_", after=after or None, base=tmp_path
    )
    assert [(row["unit"], row["after"] is None) for row in rows(source)] == [
        ("A", False),
        (None, False),
        (None, True),
    ]


def test_new_values_without_a_prefix_beside_old_ones_with_one(tmp_path: Path) -> None:
    write(tmp_path, "t.csv", "ts,entry,who,old_who,a,old_a\n2026-01-01,1,p,,x,\n2026-01-02,1,,p,,x\n")
    source = Files("t.csv", time="ts", key="entry", unit="who", before="old_", base=tmp_path)
    assert [(row["unit"], row["before"], row["after"]) for row in rows(source)] == [
        ("p", None, {"entry": "1", "who": "p", "a": "x"}),
        ("p", {"entry": "1", "who": "p", "a": "x"}, None),
    ]


def test_a_prefixed_column_wins_over_a_plain_one_of_its_name(tmp_path: Path) -> None:
    write(tmp_path, "t.csv", "ts,entry,a,before_a,after_a\n2026-01-01,1,plain,old,new\n")
    (row,) = rows(Files("t.csv", time="ts", key="entry", before="before_", after="after_", base=tmp_path))
    assert (row["before"]["a"], row["after"]["a"]) == ("old", "new")


TIMES = {
    "2026-01-31": "2026-01-31",
    " 2026-01-31 ": "2026-01-31",
    "2026-01-31T12:30": "2026-01-31T12:30",
    "2026-01-31 12:30:15": "2026-01-31T12:30:15",
    "2026-01-31T12:30:15.123456789": "2026-01-31T12:30:15.123456",
    "2026-01-31T12:30:15Z": "2026-01-31T12:30:15",
    "2026-01-31 12:30:15 UTC": "2026-01-31T12:30:15",
    "2026-01-31T12:30:15+02": "2026-01-31T10:30:15",
    "2026-01-31T12:30:15.5-0930": "2026-01-31T22:00:15.5",
    "2026-01-31T00:30+05:45": "2026-01-30T18:45",
    "0001-01-01": "0001-01-01",
    "1969-12-31T23:59:59.999999": "1969-12-31T23:59:59.999999",
    "9999-12-31T23:59:59.999999": "9999-12-31T23:59:59.999999",
}


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_times(tmp_path: Path, name: str) -> None:
    line = '{{"ts": "{}", "entry": {}}}' if name == "t.jsonl" else "{},{}"
    head = [] if name == "t.jsonl" else ["ts,entry"]
    write(tmp_path, name, "\n".join([*head, *(line.format(text, place) for place, text in enumerate(TIMES))]))
    found = rows(Files(name, time="ts", key="entry", base=tmp_path), until=2**62)
    assert {int(row["entry"]): row["time"] for row in found} == {
        place: instant(same) for place, same in enumerate(TIMES.values())
    }


@pytest.mark.parametrize(
    ("unit", "number", "same"),
    [
        ("seconds", "1700000000", 1_700_000_000_000_000),
        ("seconds", "1700000000.1234567", 1_700_000_000_123_456),
        ("seconds", "-0.0000001", -1),
        ("milliseconds", "1700000000123", 1_700_000_000_123_000),
        ("microseconds", "253402300799999999", 253_402_300_799_999_999),
    ],
)
def test_times_that_count_from_1970(tmp_path: Path, unit: str, number: str, same: int) -> None:
    write(tmp_path, "t.csv", f"ts,entry\n{number},1\n")
    write(tmp_path, "t.jsonl", f'{{"ts": "{number}", "entry": 1}}')
    for name in ("t.csv", "t.jsonl"):
        (row,) = rows(Files(name, time="ts", key="entry", time_unit=unit, base=tmp_path), until=2**62)
        assert row["time"] == same


def test_times_of_parquet(tmp_path: Path) -> None:
    at = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
    columns: dict[str, pa.Array] = {
        unit + (zone or ""): pa.array([at.replace(tzinfo=None)], pa.timestamp(unit)).cast(
            pa.timestamp(unit, zone)
        )
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "Europe/Oslo")
    }
    columns |= {
        "day": pa.array([at.date()]),
        "text": pa.array([at.isoformat()]),
        "count": pa.array([1_769_862_600]),
    }
    write(tmp_path, "t.parquet", parquet(pa.table(columns | {"entry": [1]})))
    for column in columns:
        unit = "seconds" if column == "count" else None
        (row,) = rows(Files("t.parquet", time=column, key="entry", time_unit=unit, base=tmp_path))
        assert row["time"] == instant("2026-01-31" if column == "day" else "2026-01-31T12:30")


VALUES = [
    ("text", " 007 ", " 007 "), ("text", "nan", "nan"),
    ("integer", "12", 12), ("integer", " -12 ", -12), ("integer", "12.0", 12), ("integer", "12.5", None),
    ("integer", "1e3", None), ("integer", "abc", None), ("integer", "9223372036854775808", None),
    ("number", "12.5", 12.5), ("number", "1e3", 1000.0),
    ("number", "inf", inf), ("number", "-Infinity", -inf),
    ("number", "abc", None),
    ("decimal", "0.1", Decimal("0.1")), ("decimal", "NaN", None), ("decimal", "abc", None),
    ("boolean", "true", True), ("boolean", "F", False), ("boolean", "1", True), ("boolean", "no", False),
    ("boolean", "2.5", None),
    ("date", "2026-01-31", date(2026, 1, 31)), ("date", "2026-01-31T23:30:00-02:00", date(2026, 2, 1)),
    ("date", "31.1.2026", None), ("date", "infinity", None),
    ("timestamp", "2026-01-31", datetime(2026, 1, 31)),  # noqa: DTZ001
    ("timestamp", "2026-01-31T12:00:00+01:00", datetime(2026, 1, 31, 11)),  # noqa: DTZ001
    ("timestamp", "yesterday", None),
]  # fmt: skip


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl.gz", "t.parquet.gz"])
def test_declared_types(tmp_path: Path, name: str) -> None:
    names = [f"c{place}" for place in range(len(VALUES))]
    texts = [text for _, text, _ in VALUES]
    match name:
        case "t.csv":
            content: str | bytes = f"ts,entry,{','.join(names)}\n2026-01-01,1,{','.join(texts)}\n"
        case "t.jsonl.gz":
            pairs = "".join(f', "{column}": "{text}"' for column, text in zip(names, texts, strict=True))
            content = f'{{"ts": "2026-01-01", "entry": 1{pairs}}}'
        case _:
            held = {column: [text] for column, text in zip(names, texts, strict=True)}
            content = parquet(pa.table({"ts": ["2026-01-01"], "entry": [1], **held}))
    write(tmp_path, name, content)
    declared = {column: word for column, (word, _, _) in zip(names, VALUES, strict=True)}
    source = Files(name, time="ts", key="entry", types=declared, base=tmp_path)
    (row,) = rows(source)
    assert [row["after"][column] for column in names] == [value for _, _, value in VALUES]
    assert source.unread() == {
        column: Unread(int(value is None), 1) for column, (_, _, value) in zip(names, VALUES, strict=True)
    }
    wrong = [f'"{column}"' for column, (_, _, value) in zip(names, VALUES, strict=True) if value is None]
    *_, types = source.doctor()
    shares = ", ".join(f"100.0 % of {column}" for column in wrong)
    assert not types.ok
    assert types.detail.startswith(
        f"values that do not parse and count as null (secret, never publish): {shares}; the first run refuses"
    )


def test_nan_is_a_number(tmp_path: Path) -> None:
    write(tmp_path, "t.csv", "ts,entry,x\n2026-01-01,1,NaN\n")
    (row,) = rows(Files("t.csv", time="ts", key="entry", types={"x": "number"}, base=tmp_path))
    assert isnan(row["after"]["x"])


def test_a_value_that_is_not_of_its_type_is_not_an_empty_one(tmp_path: Path) -> None:
    write(tmp_path, "t.csv", "ts,entry,after_x\n2026-01-01,1,many\n")
    (row,) = rows(
        Files("t.csv", time="ts", key="entry", after="after_", types={"x": "integer"}, base=tmp_path)
    )
    assert row["after"] == {"entry": "1", "x": None}


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    table = pa.table({
        "ts": pa.array([datetime(2026, 1, 1)]),  # noqa: DTZ001
        "entry": pa.array([1]),
        "before_n": pa.array([None], pa.int32()), "after_n": pa.array([5], pa.int64()),
        "after_d": pa.array([Decimal("1.50")]), "after_c": pa.array(["x"]).dictionary_encode(),
        "after_z": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("ns", "Europe/Oslo")),
        "after_l": pa.array([[1, 2]]), "after_0": pa.nulls(1),
    })  # fmt: skip
    write(tmp_path, "t.parquet", parquet(table))
    source = Files("t.parquet", time="ts", key="entry", before="before_", after="after_", base=tmp_path)
    assert source.columns == {
        "entry": "BIGINT", "n": "BIGINT", "d": "DECIMAL(3,2)",
        "c": "VARCHAR", "z": "TIMESTAMP", "l": "BIGINT[]",
        "0": "VARCHAR",
    }  # fmt: skip
    (row,) = rows(source)
    assert row["entry"] == "1"
    assert row["before"] is None
    assert row["after"] == {
        "entry": 1, "n": 5, "d": Decimal("1.50"), "c": "x", "z": datetime(2026, 1, 1), "l": [1, 2], "0": None,  # noqa: DTZ001
    }  # fmt: skip


def test_values_of_jsonl(tmp_path: Path) -> None:
    write(tmp_path, "t.jsonl", '\ufeff{"ts": "2026-01-01", "entry": 1, "a/b~c": 1.5, "n": null, "t": true, '
          '"o": {"x": [1, "y"]}, "s": "", "u": "\\u00e9\\n", "it\'s": 12345678901234567890}\r\n'
          '\n  \n{"entry": "2", "ts": "2026-01-02", "late": 1}\n')  # fmt: skip
    first, second = rows(Files("t.jsonl", time="ts", key="entry", base=tmp_path))
    assert first["after"] == {
        "entry": "1", "a/b~c": "1.5", "n": None, "t": "true", "o": '{"x":[1,"y"]}', "s": "", "u": "é\n",
        "it's": "12345678901234567890", "late": None,
    }  # fmt: skip
    assert second["entry"] == "2"
    assert second["after"]["late"] == "1"


def test_a_key_that_comes_late_has_to_be_declared(tmp_path: Path) -> None:
    known = '{"ts": "2026-01-01", "entry": 1, "after_a": 1}\n' * 1000
    write(tmp_path, "t.jsonl", known + '{"ts": "2026-01-02", "entry": 1, "after_a": 1, "after_b": 2}\n')
    plain = Files("t.jsonl", time="ts", key="entry", after="after_", base=tmp_path)
    assert rows(plain)[-1]["after"] == {"entry": "1", "a": "1"}
    declared = Files("t.jsonl", time="ts", key="entry", after="after_", types={"b": "integer"}, base=tmp_path)
    assert rows(declared)[-1]["after"] == {"entry": "1", "a": "1", "b": 2}


def test_jsonl_that_has_yet_to_begin(tmp_path: Path) -> None:
    write(tmp_path, "t.jsonl", "")
    source = Files(
        "t.jsonl", time="ts", key="entry", before="old_", after="new_", types={"a": "text"}, base=tmp_path
    )
    assert source.columns == {"entry": "VARCHAR", "a": "VARCHAR"}
    assert rows(source) == []


SHAPES = {
    "crlf": (CHANGES.replace("\n", "\r\n"), 3),
    "cr": (CHANGES.replace("\n", "\r"), 3),
    "bom": ("\ufeff" + CHANGES, 3),
    "no last newline": (CHANGES.rstrip(), 3),
    "blank lines": (CHANGES.replace("\n", "\n\n"), 3),
    "header only": (CHANGES.split("\n", 1)[0] + "\n", 0),
    "header only, no newline": (CHANGES.split("\n", 1)[0], 0),
    "header and blank lines": (CHANGES.split("\n", 1)[0] + "\n\n\n", 0),
    "quoted": ('"ts","entry","a""b\n"\n"2026-01-01","1","x,\r\n""y"""\n', 1),
}


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_of_csv(tmp_path: Path, shape: str, gz: str) -> None:
    text, count = SHAPES[shape]
    write(tmp_path, f"t.csv{gz}", text)
    found = rows(Files(f"t.csv{gz}", time="ts", key="entry", base=tmp_path))
    assert len(found) == count
    if shape == "quoted":
        assert found[0]["after"] == {"entry": "1", 'a"b\n': 'x,\r\n"y"'}


def test_tabs(tmp_path: Path) -> None:
    write(tmp_path, "t.tsv", 'ts\tentry\ta\n2026-01-01\t1\t"x\ty,"\n')
    (row,) = rows(Files("t.tsv", time="ts", key="entry", base=tmp_path))
    assert row["after"]["a"] == "x\ty,"


def test_no_rows_of_parquet(tmp_path: Path) -> None:
    write(
        tmp_path, "t.parquet", parquet(pa.schema([("ts", pa.string()), ("entry", pa.string())]).empty_table())
    )
    assert rows(Files("t.parquet", time="ts", key="entry", base=tmp_path)) == []


def test_rows_come_by_time_then_file_then_row(tmp_path: Path) -> None:
    write(tmp_path, "b.csv", "ts,entry\n2026-01-02,b0\n2026-01-01,b1\n2026-01-02,b2\n")
    write(tmp_path, "a.csv.gz", "entry,more,ts\na0,x,2026-01-02\na1,x,2026-01-03\n")
    write(tmp_path, "c.txt", "no")
    (tmp_path / "folder.csv").mkdir()
    source = Files("*.csv*", table="t", time="ts", key="entry", base=tmp_path)
    # The first file says which columns there are; the second may have them in another order, but must have
    # them.
    write(tmp_path, "b.csv", "ts,entry,more\n2026-01-02,b0,\n2026-01-01,b1,\n2026-01-02,b2,\n")
    assert [row["entry"] for row in rows(source)] == ["b1", "a0", "b0", "b2", "a1"]


def test_globs(tmp_path: Path) -> None:
    for name in ("2025/t-1.csv", "2026/t-2.csv", "2026/deep/t-3.csv", "t[1].csv"):
        write(tmp_path, name, f"ts,entry\n2026-01-01,{name}\n")
    for pattern, count in {
        "**/t-*.csv": 3,
        "202?/t-*.csv": 2,
        f"{tmp_path}/2026/t-*.csv": 1,
        "t[1].csv": 1,
    }.items():
        assert len(rows(Files(pattern, time="ts", key="entry", base=tmp_path))) == count


@pytest.mark.parametrize(
    ("path", "table"),
    [("patients.csv", "patients"), ("a/b.c/patients.jsonl.gz", "patients"),
     ("patients-2026-*.parquet", "patients-2026"),
     ("log_*.csv", "log"), ("Patients.CSV", "Patients")],
)  # fmt: skip
def test_a_table_is_named_after_its_file(path: str, table: str) -> None:
    assert Files(path, time="ts", key="entry").table == table


def test_batches_do_not_split_an_instant(tmp_path: Path) -> None:
    days = [1, 2, 2, 2, 3, 4, 4]
    write(
        tmp_path,
        "t.csv",
        "ts,entry\n" + "".join(f"2026-01-0{day},{place}\n" for place, day in enumerate(days)),
    )
    batches = list(Files("t.csv", time="ts", key="entry", base=tmp_path, batch_rows=2).read(None, EVER))
    assert [batch.rows["entry"].to_pylist() for batch in batches] == [
        ["0"],
        ["1", "2", "3"],
        ["4"],
        ["5", "6"],
    ]
    assert [batch.upto for batch in batches] == [*(instant(f"2026-01-0{day}") for day in (1, 2, 3)), EVER]


def test_leaving_early_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "t.csv", "ts,entry\n2026-01-01,1\n2026-01-02,2\n")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    reading = Files("t.csv", time="ts", key="entry", base=tmp_path, batch_rows=1).read(None, EVER)
    next(reading)
    (folder,) = (tmp_path / "scratch").iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    reading.close()  # type: ignore[attr-defined]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_what_does_not_fit_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench, "MEMORY", "2MB")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    lines = [
        f"{(start + timedelta(seconds=place)).isoformat()},{place},{'x' * 100}" for place in range(20_000)
    ]
    write(tmp_path, "t.csv", "\n".join(["ts,entry,a", *lines]))
    with pytest.raises(SourceError, match="more than 2MB of memory"):
        rows(Files("t.csv", time="ts", key="entry", base=tmp_path))


@pytest.mark.parametrize(
    ("declared", "key"),
    [
        ({"before": ""}, "source.before"),
        ({"before": "x_", "after": "x_"}, "source.before"),
        ({"before": "x_old_", "after": "x_"}, "source.before"),
        ({"unit": "entry"}, "source.unit"),
        ({"types": {"a": "varchar"}}, "source.types.a"),
        ({"types": {"ts": "timestamp"}}, "source.types.ts"),
        ({"time_unit": "days"}, "source.time_unit"),
        ({"path": "*.csv"}, "source.table"),
    ],
)
def test_declarations_that_cannot_be(declared: dict[str, Any], key: str) -> None:
    with pytest.raises(SpecError) as refused:
        Files(**({"path": "t.csv", "time": "ts", "key": "entry"} | declared))
    assert refused.value.key == key
