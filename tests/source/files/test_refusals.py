"""Every input that is refused, with the words for it, as docs/sources/files.md shows them."""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegauge.errors import SourceError
from tidegauge.source.batch.workbench import scratch
from tidegauge.source.files import intact, tabular
from tidegauge.source.files.sniff import sniff
from tidegauge.source.files.source import Files

DOCS = Path(__file__).parents[3] / "docs" / "sources" / "files.md"
SECRET = "Ada-Lovelace"

HEAD = "ts,entry,status\n"
GOOD = "2026-01-01,1,ill\n"
SPREAD = '2026-01-02,2,"ill\nand\r\nwell"\n'
"""A row of three lines: what follows it is further down than its number says."""


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


PARQUET = parquet(ts=["2026-01-01"] * 3, key=["1", "2", "3"], status=[SECRET] * 3)
ZIPPED = gzip.compress((HEAD + GOOD * 500).encode())
BENT = bytes(
    byte ^ (place in range(len(ZIPPED) // 2, len(ZIPPED) // 2 + 4)) for place, byte in enumerate(ZIPPED)
)
FLOAT16 = pa.array([1.0], pa.float16())

# file, its content, what is declared besides time and entry, the words
CASES: list[tuple[str, str | bytes, dict[str, Any], str]] = [
    # the file
    ("patients.txt", HEAD, {},
     "patients.txt: the name must end in .csv, .tsv, .jsonl, .ndjson or .parquet, or one of these and .gz; "
     "rename the file to what it contains."),
    ("patients.json", "[]", {},
     "patients.json: a .json file is one whole text; write one object a line and name the file .jsonl (a "
     "list: jq -c '.[]' FILE.json > FILE.jsonl)."),
    ("patients.xlsx", "PK", {},
     "patients.xlsx: a spreadsheet is not read; save the sheet as CSV UTF-8, and name that file."),
    ("patients.csv", "", {}, "patients.csv: the file is empty; its first line must name the columns."),
    ("patients.csv", "\n" + HEAD, {},
     "patients.csv, line 1: the first line must name the columns, and it is empty."),
    ("patients.csv.gz", ZIPPED[:-20], {},
     "patients.csv.gz: the gzip is damaged or cut short; copy the file again."),
    ("patients.csv.gz", BENT, {}, "patients.csv.gz: the gzip is damaged or cut short; copy the file again."),
    ("patients.csv.gz", HEAD + GOOD, {},
     "patients.csv.gz: the gzip is damaged or cut short; copy the file again."),
    ("patients.parquet.gz", gzip.compress(PARQUET)[:-9], {},
     "patients.parquet.gz: the gzip is damaged or cut short; copy the file again."),
    ("patients.parquet", PARQUET[:-1], {}, "patients.parquet: the file is not an intact parquet file."),
    ("patients.parquet", b"", {}, "patients.parquet: the file is not an intact parquet file."),
    # the columns
    ("patients.csv", "when,entry,status\n" + GOOD, {},
     "patients.csv: column 'ts' (time) is missing; the columns "
     "are 'when', 'entry', 'status'. Correct [source]."),
    ("patients.csv", "ts,id,status\n" + GOOD, {},
     "patients.csv: column 'entry' (key) is missing; the columns are 'ts', 'id', 'status'. Correct "
     "[source]."),
    ("patients.csv", HEAD + GOOD, {"op": "op"},
     "patients.csv: column 'op' (op) is missing; the columns are 'ts', 'entry', 'status'. Correct [source]."),
    ("patients.csv", HEAD + GOOD, {"unit": "person"},
     "patients.csv: column 'person' (unit) is missing; the columns "
     "are 'ts', 'entry', 'status'. Correct [source]."),
    ("patients.csv", HEAD + GOOD, {"types": {"age": "integer"}},
     "patients.csv: column 'age' (in types) is missing; the columns "
     "are 'ts', 'entry', 'status'. Correct [source]."),
    ("patients.csv", HEAD + GOOD, {"before": "before_"},
     "patients.csv: a column that begins with 'before_' is missing; the columns "
     "are 'ts', 'entry', 'status'. Correct [source]."),
    ("patients.csv", f"2026-01-01,1,{SECRET}\n", {},
     "patients.csv: column 'ts' (time) is missing, and so are the other declared "
     "columns; the first line must name the columns."),
    ("patients.csv", "ts,entry,status,status\n", {},
     "patients.csv: two columns are named 'status'; rename one of them in the first line."),
    ("patients.csv", "ts,entry,status,Status\n", {},
     "patients.csv: columns 'status' and 'Status' are the same name in SQL; rename one of them."),
    ("patients.csv", "ts,entry,,status\n", {},
     "patients.csv: column 3 has no name; write one in the first line."),
    ("patients.csv", "ts,entry,after_,after_status\n", {"after": "after_"},
     "patients.csv: column 'after_' is only a prefix; rename the column."),
    ("patients.csv", HEAD[:-1] + "x" * 200_000, {}, "patients.csv, line 1: a column's name is too long."),
    ("patients.jsonl", "", {},
     "patients.jsonl: there are no rows yet that show the columns; declare them in types."),
    ("patients.parquet", parquet(ts=[1], entry=[1]), {},
     "patients.parquet: column 'ts' (time) is of type BIGINT, not a time. If it counts from 1970, declare "
     "time_unit (seconds, milliseconds, microseconds); else name another column."),
    ("patients.parquet", parquet(ts=["2026-01-01"], entry=[1], ratio=FLOAT16), {},
     "patients.parquet: column 'ratio' has a type that cannot be read; cast it to another."),
    # the rows
    ("patients.csv", HEAD + SPREAD + "2026-01-02,2\n", {},
     "patients.csv, line 5: the row has 2 fields, the header 3; a "
     "field that contains ',' needs quotes around it."),
    ("patients.csv", HEAD + SPREAD + "2026-01-02,2,ill,\n", {},
     "patients.csv, line 5: the row has 4 fields, the header 3; a "
     "field that contains ',' needs quotes around it."),
    ("patients.csv", HEAD + SPREAD + '2026-01-02,2,"ill\n' + GOOD * 9, {},
     "patients.csv, line 5: a quote is not closed, not doubled, or not at the start of its field."),
    ("patients.csv", HEAD + GOOD + f'2026-01-02,2,"{SECRET}\n' + SPREAD, {},
     "patients.csv, line 3: a quote is not closed, not doubled, or not at the start of its field."),
    ("patients.csv", HEAD + GOOD + '2026-01-02,2,5" pipe\n', {},
     "patients.csv, line 3: a quote is not closed, not doubled, or not at the start of its field."),
    ("patients.csv", HEAD.encode() + b'2026-01-01,1,"ill\n\xff"\n', {},
     "patients.csv, line 3: the text is not UTF-8 (ISO-8859-1 or windows-1252, perhaps). Save the file as "
     "UTF-8 (Excel: CSV UTF-8), or convert it: iconv -f WINDOWS-1252 -t UTF-8."),
    ("patients.csv", (HEAD + GOOD).encode("utf-16"), {},
     "patients.csv, line 1: the text is not UTF-8 (UTF-16). Save the file as UTF-8 (Excel: CSV UTF-8), or "
     "convert it: iconv -f UTF-16 -t UTF-8."),
    ("patients.csv", HEAD + SPREAD + "2026-01-02,2,i\0ll\n", {},
     "patients.csv, line 5: the text contains a control character (byte 0), so the file may not be text in "
     "UTF-8. If it is UTF-16, convert it: iconv -f UTF-16LE -t UTF-8; else remove the character."),
    ("patients.csv", "ts,entry,st\0atus\n", {},
     "patients.csv, line 1: the text contains a control character (byte 0), so the file may not be text in "
     "UTF-8. If it is UTF-16, convert it: iconv -f UTF-16LE -t UTF-8; else remove the character."),
    ("patients.jsonl", '{"ts": "2026-01-01", "entry": 1}\n{"ts": "2026-01-02", "entry"\n', {},
     "patients.jsonl, line 2: the line is not a JSON object with distinct keys."),
    ("patients.jsonl", "\n[1]\n", {},
     "patients.jsonl, line 2: the line is not a JSON object with distinct keys."),
    ("patients.jsonl", '{"ts": "2026-01-01", "entry": 1}\n7\n', {},
     "patients.jsonl, line 2: the line is not a JSON object with distinct keys."),
    ("patients.jsonl", '{"ts": "2026-01-01", "entry": 1, "entry": 2}\n', {},
     "patients.jsonl, line 1: the line is not a JSON object with distinct keys."),
    ("patients.jsonl", '{"ts": "2026-01-01", "entry": "\\ud800"}\n', {},
     "patients.jsonl, line 1: the line is not a JSON object with distinct keys."),
    ("patients.jsonl", b'{"ts": "2026-01-01", "entry": 1}\n{"ts": "\xff"}\n', {},
     "patients.jsonl, line 2: the text is not UTF-8 (ISO-8859-1 or windows-1252, perhaps). Save the file as "
     "UTF-8 (Excel: CSV UTF-8), or convert it: iconv -f WINDOWS-1252 -t UTF-8."),
    ("patients.jsonl", '{"ts": "2026-01-01", "entry": 1}\n\x01\n', {},
     "patients.jsonl, line 2: the text contains a control character (byte 1), so the file may not be text in "
     "UTF-8. If it is UTF-16, convert it: iconv -f UTF-16LE -t UTF-8; else remove the character."),
    # the values
    ("patients.csv", HEAD + SPREAD + ",2,ill\n", {},
     "patients.csv, line 5: column 'ts' (time) is empty; every change needs a time."),
    ("patients.csv", HEAD + "\n\n" + SPREAD + f"{SECRET},2,ill\n", {},
     "patients.csv, line 7: column 'ts' (time) does not contain a time; expected 2026-01-31 or "
     "2026-01-31T12:00:00Z; for another notation declare date_format or time_unit, or name another column."),
    ("patients.csv", HEAD + "2026-02-30,2,ill\n", {},
     "patients.csv, line 2: column 'ts' (time) does not contain a time; expected 2026-01-31 or "
     "2026-01-31T12:00:00Z; for another notation declare date_format or time_unit, or name another column."),
    ("patients.csv", HEAD + "infinity,2,ill\n", {},
     "patients.csv, line 2: column 'ts' (time) does not contain a time; expected 2026-01-31 or "
     "2026-01-31T12:00:00Z; for another notation declare date_format or time_unit, or name another column."),
    ("patients.csv", HEAD + "12026-01-01,2,ill\n", {},
     "patients.csv, line 2: column 'ts' (time) does not contain a time; expected 2026-01-31 or "
     "2026-01-31T12:00:00Z; for another notation declare date_format or time_unit, or name another column."),
    ("patients.jsonl", '{"ts": 1769862600, "entry": 1}', {},
     "patients.jsonl, line 1: column 'ts' (time) does not contain a time; expected 2026-01-31 or "
     "2026-01-31T12:00:00Z; for another notation declare date_format or time_unit, or name another column."),
    ("patients.csv", HEAD + "soon,2,ill\n", {"time_unit": "seconds"},
     "patients.csv, line 2: column 'ts' (time) does not contain a time; "
     "expected a number of seconds, or name another column."),
    ("patients.csv", HEAD + "0000-01-01,2,ill\n", {},
     "patients.csv, line 2: column 'ts' (time) is outside the years 1 to 9999."),
    ("patients.csv", HEAD + "9999-12-31T23:00:00-05:00,2,ill\n", {},
     "patients.csv, line 2: column 'ts' (time) is outside the years 1 to 9999."),
    ("patients.csv", HEAD + "253402300800,2,ill\n", {"time_unit": "seconds"},
     "patients.csv, line 2: column 'ts' (time) is outside the years 1 to 9999."),
    ("patients.parquet", parquet(ts=["2026-01-01", "soon"], entry=[1, 2]), {},
     "patients.parquet: row 2: column 'ts' (time) does not contain a time; expected 2026-01-31 or "
     "2026-01-31T12:00:00Z; for another notation declare date_format or time_unit, or name another column."),
    ("patients.csv", "ts,entry,op\n2026-01-01,1,T\n", {"op": "op"},
     "patients.csv, line 2: column 'op' (op) contains no operation: insert, update or delete, or one of i, "
     "c, r, u, d. Correct the row, or name another column."),
]  # fmt: skip


def refused(source: Files, position: str | None = None) -> SourceError:
    with pytest.raises(SourceError) as error:
        next(iter(source.read(position, 2**60)))
    assert str(error.value).endswith("\nNothing was published or spent.")
    assert SECRET not in str(error.value)
    return error.value


def first_line(error: SourceError) -> str:
    return str(error).split("\n", maxsplit=1)[0]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_refused(tmp_path: Path, case: int) -> None:
    name, content, declared, words = CASES[case]
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    error = refused(Files(name, time="ts", key="entry", base=tmp_path, **declared))
    assert first_line(error) == words
    assert error.path == name
    line = re.search(r", line (\d+):", words)
    assert error.line == (int(line[1]) if line else None)


OTHERS = {
    "nothing.csv": "nothing.csv: there is no such file; the folder is /data. Correct the path.",
    "nothing-*.csv": "nothing-*.csv: there is no such file; the folder is /data. Correct the path.",
    "folder": "folder: this is a folder; write which files in it, like *.csv.",
    "mixed/t.*": "mixed/t.*: the files must be of one kind: csv, jsonl or parquet.",
    "other/t-*.csv": "other/t-2.csv: column 'status', which the first file has, is missing; the columns are "
    "'ts', 'entry'. Correct [source].",
    "x" * 300 + ".csv": "x" * 300 + ".csv: the path cannot be followed (File name too long).",
    "loop.csv": "loop.csv: there is no such file; the folder is /data. Correct the path.",
}


@pytest.mark.parametrize("path", OTHERS)
def test_refused_paths(tmp_path: Path, path: str) -> None:
    for folder in ("folder", "mixed", "other"):
        (tmp_path / folder).mkdir()
    for name, content in {"mixed/t.csv": HEAD, "mixed/t.jsonl": "", "other/t-1.csv": HEAD}.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "other/t-2.csv").write_text("ts,entry\n")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    error = refused(Files(path, table="t", time="ts", key="entry", base=tmp_path))
    assert first_line(error).replace(str(tmp_path), "/data") == OTHERS[path]


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "patients.csv").write_text(HEAD)

    def denied(*_: object) -> None:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "open", denied)
    error = refused(Files("patients.csv", time="ts", key="entry", base=tmp_path))
    assert first_line(error) == "patients.csv: the file cannot be read (Permission denied)."


GONE = "patients-1.csv: the file was read before and is gone; put it back."
SHORTER = "patients-2.csv: the file has fewer rows than were read before; put them back."


def test_files_that_shrink(tmp_path: Path) -> None:
    one, two = tmp_path / "patients-1.csv", tmp_path / "patients-2.csv"
    one.write_text(HEAD + GOOD)
    two.write_text(HEAD + GOOD * 2)
    source = Files("patients-*.csv", time="ts", key="entry", base=tmp_path)
    *_, last = source.read(None, 2**60)
    two.write_text(HEAD + GOOD)
    assert first_line(refused(source, last.position)) == SHORTER
    one.unlink()
    assert first_line(refused(source, last.position)) == GONE


@pytest.mark.parametrize("position", ["", "7", "[7]", '[{"files": 1}]', '[{"files": {"a": "x"}, "upto": 1}]',
                                      '[{"files": {}, "upto": Infinity}]'])  # fmt: skip
def test_a_position_of_something_else(tmp_path: Path, position: str) -> None:
    error = refused(Files("patients.csv", time="ts", key="entry", base=tmp_path), position)
    assert first_line(error) == "the stored position is not one of a source of kind files."


CHANGED = ["patients.csv: the file cannot be read as csv, or changed while it was read.",
           "patients.jsonl: the file cannot be read as lines, or changed while it was read."]  # fmt: skip


@pytest.mark.parametrize("words", CHANGED)
def test_a_file_that_is_in_order_when_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise pa.ArrowInvalid(SECRET)

    name = words.split(":", maxsplit=1)[0]
    (tmp_path / name).write_text(HEAD + GOOD if name.endswith("csv") else '{"ts": "2026-01-01", "entry": 1}')
    monkeypatch.setattr(tabular, "_delimited", stumble)
    assert first_line(refused(Files(name, time="ts", key="entry", base=tmp_path))) == words


def test_the_engine_does_not_speak_of_data() -> None:
    with pytest.raises(SourceError) as error, scratch() as engine:
        engine.execute(f"SELECT CAST('{SECRET}' AS INTEGER)").fetchall()
    assert first_line(error.value) == "the rows cannot be arranged (ConversionException)."


LONG = ", line 3: the row is longer than 16 MiB, or a quote is not closed."
LONG_LINE = ", line 3: the line is longer than 16 MiB."


@pytest.mark.parametrize(
    ("name", "row", "words"),
    [
        ("patients.csv", f'2026-01-01,1,"{"x" * 1400}\n{"x" * 1400}\n{"x" * 1400}"', LONG),
        ("patients.csv", f"2026-01-01,1,{'x' * 5000}", LONG_LINE),
        ("patients.jsonl", f'{{"ts": "2026-01-01", "entry": "{"x" * 5000}"}}', LONG_LINE),
    ],
)
def test_a_row_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, row: str, words: str
) -> None:
    for module in (intact, tabular):
        monkeypatch.setattr(module, "BLOCK", 1500)
    head = HEAD + GOOD if name == "patients.csv" else '{"ts": "2026-01-01", "entry": "1"}\n' * 2
    (tmp_path / name).write_text(head + row + "\n")
    error = refused(Files(name, time="ts", key="entry", base=tmp_path))
    assert first_line(error) == name + words


def test_a_fault_many_blocks_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (intact, tabular):
        monkeypatch.setattr(module, "BLOCK", 4096)
    rows = 5000
    (tmp_path / "patients.csv").write_text(HEAD + SPREAD * rows + "2026-01-01,1\n")
    error = refused(Files("patients.csv", time="ts", key="entry", base=tmp_path))
    assert (
        first_line(error)
        == f"patients.csv, line {2 + 3 * rows}: the row has 2 fields, the header 3; a field that contains "
        "',' needs quotes around it."
    )


def test_the_operators_other_questions_are_refused_alike(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    path.write_text(HEAD + GOOD + "2026-01-02\n")
    source = Files("patients.csv", time="ts", key="entry", types={"status": "text"}, base=tmp_path)
    with pytest.raises(SourceError, match="line 3: the row has 1 fields"):
        source.unread()
    with pytest.raises(SourceError, match="line 3: the row has 1 fields"):
        sniff(path)


UNREAD = (
    "patients.csv, line 2: more than 1 % of the values of column 'age' are not of type integer; this is the "
    "first. Correct decimal, thousands, types or nulls under [source]. `tidegauge doctor` shows the share."
)


def test_many_values_that_do_not_parse(tmp_path: Path) -> None:
    (tmp_path / "patients.csv").write_text(f"ts,entry,age\n2026-01-01,1,{SECRET}\n2026-01-01,2,30\n")
    source = Files("patients.csv", time="ts", key="entry", types={"age": "integer"}, base=tmp_path)
    with pytest.raises(SourceError) as error:
        source.rehearse()
    assert str(error.value) == f"{UNREAD}\nNothing was published or spent."


def test_the_manual_shows_each_of_them() -> None:
    indented = re.findall(r"^    (\S.*)$", DOCS.read_text(), flags=re.MULTILINE)
    shown = {line for line in indented if " = " not in line and line != "[source]"}
    assert shown == {words for *_, words in CASES} | {
        *(words for path, words in OTHERS.items() if not path.startswith("x") and path != "loop.csv"),
        "patients.csv: the file cannot be read (Permission denied).",
        *CHANGED,
        GONE,
        SHORTER,
        UNREAD,
        "patients.csv" + LONG,
        "patients.csv" + LONG_LINE,
    }


def test_no_engine_of_a_source_draws_a_bar_on_standard_output() -> None:
    """Where Python has no main file, as in a notebook, DuckDB would: in the middle of JSON."""
    program = (
        "from tidegauge.source.batch.workbench import scratch\n"
        "from tidegauge.source.snapshots.readers import database\n"
        "asked = \"SELECT current_setting('enable_progress_bar')\"\n"
        "with scratch() as engine: print(engine.execute(asked).fetchone()[0])\n"
        "print(database().execute(asked).fetchone()[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
