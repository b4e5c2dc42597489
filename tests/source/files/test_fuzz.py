"""Files that should not exist: they are read rightly or refused, never anything else."""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegauge.errors import SourceError
from tidegauge.source.files import intact, tabular
from tidegauge.source.files.intact import Blemish, Guard
from tidegauge.source.files.sniff import sniff
from tidegauge.source.files.source import Files

CSV = (
    b"ts,entry,person,before_a,before_b,after_a,after_b\n"
    b"2020-01-01,1,p,,,x,1\n"
    b'2020-01-02T10:00:00Z,1,p,x,1,"y, ""q""\nz",2\n'
    b'2020-01-02 11:00:00.123456789+02:00,2,q,,,"",3\n'
    b'2020-01-03,1,p,"y, ""q""\nz",2,,\n'
)
JSONL = (
    b'{"ts":"2020-01-01","entry":1,"person":"p","before_a":null,"after_a":"x","after_b":1.5}\n'
    b'{"ts":"2020-01-02","entry":1,"person":"p","before_a":"x","after_a":"y","after_b":null,"o":{"k":[1]}}\n'
    b'\n{"ts":"2020-01-03","entry":"2","person":"q","after_a":"x"}\n'
)
TABLE = pa.table({
    "ts": ["2020-01-01", "2020-01-02", "2020-01-03"], "entry": [1, 2, 3], "person": ["p", "q", "r"],
    "before_a": [None, "x", "y"], "after_a": ["x", "y", None], "after_b": [1.5, None, None],
})  # fmt: skip
TOKENS = [b'"', b",", b"\n", b"\r", b"\0", b"\xff", b'""', b'"\n', b',"', b"\xef\xbb\xbf", b"{", b"}", b"[",
          b":", b"\\u0000", b"\\ud800", b"9" * 30, b"infinity", b"\xe2\x80\xa8",
          b"\x01", b"-", b"1e999", b"'", b"before_", b"ts", b"null",
          b"\t", b" "]  # fmt: skip
DECLARED: list[dict[str, Any]] = [
    {},
    {"after": "after_"},
    {"before": "before_", "after": "after_", "unit": "person"},
    {"before": "before_", "types": {"a": "integer"}},
    {"before": "before_", "after": "after_", "op": "person", "types": {"a": "date", "b": "decimal"}},
]


def parquet(**options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, **options)
    return sink.getvalue()


SEEDS = {
    "csv": [CSV, CSV.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + CSV],
    "jsonl": [JSONL],
    "parquet": [
        parquet(),
        parquet(compression="none", use_dictionary=False),
        parquet(write_page_checksum=True),
    ],
}


def mutated(data: bytes, dice: random.Random) -> bytes:
    """Bytes changed, tokens put in, pieces cut, doubled and moved."""
    held = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 3, 8])):
        at = dice.randrange(len(held) + 1)
        to = at + dice.randrange(1, 12)
        match dice.randrange(6):
            case 0:
                held[at : at + 1] = bytes([dice.randrange(256)])
            case 1:
                held[at:at] = dice.choice(TOKENS)
            case 2:
                del held[at:to]
            case 3:
                held[at:at] = held[at:to]
            case 4:
                del held[at:]
            case _:
                start = dice.randrange(len(held) + 1)
                held[at:at] = held[start : start + dice.randrange(40)]
    return bytes(held)


def fuzz(folder: Path, kind: str, *, seed: int, tries: int) -> int:
    """How many of the tries could be read."""
    dice = random.Random(seed)
    good, words = 0, list[str]()
    for place in range(tries):
        data = dice.choice(SEEDS[kind.removesuffix(".gz")])
        if kind.endswith(".gz"):
            data = (
                gzip.compress(mutated(data, dice))
                if dice.random() < 0.5
                else mutated(gzip.compress(data), dice)
            )
        else:
            data = mutated(data, dice)
        path = folder / f"t.{kind}"
        path.write_bytes(data)
        try:
            source = Files(path.name, time="ts", key="entry", base=folder, **dice.choice(DECLARED))
            if place % 10 == 0:
                sniff(path)
            list(source.read(None, 2**60))
            if place % 5 == 0:
                source.unread()
            good += 1
        except SourceError as refused:
            words.append(str(refused))
    # What stands in the header is named; nothing else of the file is.
    assert [
        said for said in words if "the columns are" not in said and re.search("2020-01|9{30}", said)
    ] == []
    return good


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "csv.gz"])
def test_only_refusals_come_out(tmp_path: Path, kind: str) -> None:
    assert fuzz(tmp_path, kind, seed=1, tries=30) < 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "csv.gz", "jsonl.gz", "parquet.gz"])
def test_only_refusals_come_out_of_many(tmp_path: Path, kind: str) -> None:
    assert fuzz(tmp_path, kind, seed=2, tries=500) < 500


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.text(alphabet='",\n\ra', max_size=30), st.integers(1, 7))
@example('"a"', 3)
@example('a"', 1)
def test_a_stray_quote_is_seen_across_reads(text: str, size: int) -> None:
    field = '(?:"(?:[^"]|"")*"|[^",\r\n]*)'
    strict = re.fullmatch(f"{field}(?:[,\r\n]{field})*", text) is not None
    guard = Guard(io.BufferedReader(io.BytesIO(text.encode())), forbidden=b"", delimiter=",")
    seen = []
    try:
        while chunk := guard.read(size):
            seen.append(chunk)
        passed = True
    except Blemish:
        passed = False
    assert passed == strict
    assert not passed or b"".join(seen) == text.encode()


cells = st.text(alphabet=st.sampled_from("a,\"\n\r é'\t{"), max_size=5)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    st.lists(st.lists(cells, min_size=2, max_size=2), max_size=6),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_csv_says_what_its_writer_meant(table: list[list[str]], newline: str, everything: bool) -> None:
    if not everything:  # Python's writer does not quote a lone carriage return
        table = [[cell.replace("\r", "") for cell in row] for row in table]
    text = io.StringIO(newline="")
    writer = csv.writer(
        text, lineterminator=newline, quoting=csv.QUOTE_ALL if everything else csv.QUOTE_MINIMAL
    )
    writer.writerows(
        [["ts", "entry", "a", "b"], *(["2026-01-01", place, *row] for place, row in enumerate(table))]
    )
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for module in (intact, tabular):
            patch.setattr(module, "BLOCK", 64)  # so that rows lie across blocks
        (Path(folder) / "t.csv").write_bytes(text.getvalue().encode())
        (batch,) = Files("t.csv", time="ts", key="entry", op=None, base=Path(folder)).read(None, 2**60)
    found = [row["after"] and [row["after"]["a"], row["after"]["b"]] for row in batch.rows.to_pylist()]
    assert found == [[cell or None for cell in row] if any(row) else None for row in table]


def test_what_is_read_of_a_mutated_csv_is_what_python_reads(tmp_path: Path) -> None:
    dice = random.Random(3)
    head = b"ts,entry,a,b\n"
    body = b'2026-01-01,1,x,"y, ""q""\nz"\n2026-01-01,2,,\n2026-01-01,3,"",u\r\n'
    agreed = 0
    for _ in range(80):
        data = head + mutated(body, dice)
        (tmp_path / "t.csv").write_bytes(data)
        try:
            (batch,) = Files("t.csv", time="ts", key="entry", base=tmp_path).read(None, 2**62)
        except SourceError:
            continue
        rows = [row for row in csv.reader(io.StringIO(data.decode(), newline=""), strict=True) if row][1:]
        expected = [(row[1], [cell or None for cell in row[2:]] if any(row[2:]) else None) for row in rows]
        found = [
            (row["entry"], row["after"] and [row["after"]["a"], row["after"]["b"]])
            for row in batch.rows.to_pylist()
        ]
        assert sorted(map(repr, found)) == sorted(map(repr, expected))
        agreed += 1
    assert agreed > 5
