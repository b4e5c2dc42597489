"""What every operation gives, value by value:
data that any engine's rendering of expressions can be run through.

A case is an expression as JSON (the canonical form of tidegauge.model.expression) and its value.  Numbers
compare by value, and NaN equals NaN.  Where an operation takes constants alone (units, types, patterns) it
has constants here.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from math import inf, nan
from typing import Any, Final

JSON = Any
NAN: Final = ["double", "nan"]
INF: Final = ["double", "inf"]
AT: Final = ["at", "2026-01-31 12:30:15.987654"]


def at(written: str) -> datetime:
    return datetime.fromisoformat(written)


def _time(written: str) -> JSON:
    return ["at", written]


def _day(written: str) -> JSON:
    return ["date", ["at", f"{written} 00:00:00"]]


CONDITIONS: Final[list[tuple[JSON, Any]]] = [
    (["present", "after"], True), (["present", "before"], False),
    (["and", True, None], None), (["and", False, None], False),
    (["and", True, True, True], True), (["and", None], None),
    (["or", True, None], True), (["or", False, None], None), (["or", False, False], False),
    (["not", True], False), (["not", ["boolean", None]], None),
    (["=", "a", "a"], True), (["=", "a", "A"], False),
    (["=", "a", "a "], False), (["=", "\u00e9", "e\u0301"], False),
    (["=", NAN, NAN], True), (["=", -0.0, 0.0], True), (["=", "a", None], None), (["=", True, True], True),
    (["<>", 1, 2], True), (["<>", NAN, NAN], False), (["<>", 1, None], None),
    (["<", "a", "B"], False), (["<", "z", "ä"], True), (["<", "a", "aa"], True), (["<", "", "a"], True),
    (["<", INF, NAN], True), (["<", False, True], True), (["<", "￿", "𝄞"], True), (["<", "9", "10"], False),
    (["<=", 1, 1], True), (["<=", NAN, INF], False), ([">", NAN, 1e300], True), ([">", 2, 10], False),
    ([">=", NAN, NAN], True), ([">=", None, 1], None), ([">=", AT, _time("2026-01-31 12:30:15")], True),
    (["=", _day("2026-01-31"), _day("2026-01-31")], True),
    (["<", _day("2026-01-31"), _day("2026-02-01")], True),
    (["same", None, None], True), (["same", 1, None], False), (["same", NAN, NAN], True),
    (["differs", None, None], False), (["differs", "a", None], True), (["differs", "a", "b"], True),
    (["is null", None], True), (["is null", ""], False), (["is null", NAN], False),
    (["is not null", None], False), (["is not null", 0], True),
    (["is", ["boolean", None], True], False), (["is", True, True], True), (["is", False, False], True),
    (["is not", ["boolean", None], True], True),
    (["is not", ["boolean", None], False], True), (["is not", True, True], False),
    (["between", 3, 1, 3], True), (["between", 3, 1, None], None), (["between", 5, None, 3], False),
    (["between", NAN, 0.0, INF], False), (["between", "b", "a", "c"], True), (["between", 2, 3, 1], False),
    (["in", 1, 2, None], None), (["in", 1, 1, None], True), (["in", 1, 2, 3], False), (["in", None, 1], None),
    (["in", NAN, 1.0, NAN], True),
    (["like", "abc", "a%"], True), (["like", "abc", "A%"], False),
    (["like", "ä", "_"], True), (["like", "a\nb", "a_b"], True),
    (["like", "", "%"], True), (["like", "a", ""], False),
    (["like", "a%", "a!%", "!"], True), (["like", "ab", "a!%", "!"], False),
    (["like", "a!b", "a!!b", "!"], True), (["like", "ab", "a!b", "!"], True), (["like", None, "a"], None),
    (["like", "a\\b", "a\\b"], True), (["like", "a.c", "a.c"], True),
    (["like", "abc", "a.c"], False), (["like", "xaxbx", "%a%b%"], True),
    (["not like", "abc", "a%"], False), (["not like", None, "a"], None), (["not like", "b", "a"], True),
    (["ilike", "ÄB", "äb"], True), (["ilike", "ß", "SS"], False),
    (["ilike", "İ", "i"], True), (["ilike", "A%", "ax%", "x"], True),
    (["not ilike", "ABC", "a%"], False), (["not ilike", None, "a%"], None),
]  # fmt: skip

CHOICES: Final[list[tuple[JSON, Any]]] = [
    (["case", None, 1, True, 2, 3], 2), (["case", False, 1, 9], 9),
    (["case", True, 1, True, 2, 3], 1), (["case", False, 1, None], None),
    (["coalesce", None, 2, 3], 2), (["coalesce", ["text", None]], None),
    (["least", None, 3, 2], 2), (["least", ["double", None]], None),
    (["least", NAN, 1.0], 1), (["least", "b", "a"], "a"),
    (["greatest", None, 3, 2], 3), (["greatest", 1.0, NAN], nan), (["greatest", "ä", "z"], "ä"),
    (["nullif", 1, 1], None), (["nullif", 1, 2], 1), (["nullif", 1, None], 1),
    (["nullif", NAN, NAN], None), (["nullif", None, 1], None),
]  # fmt: skip

KINDS: Final[list[tuple[JSON, Any]]] = [
    *((["double", written], value) for written, value in {
        "5": 5, " 5 ": 5, "\t5\n": 5, "+5": 5, "-7": -7,
        ".5": 0.5, "5.": 5, "1e3": 1000, "1E3": 1000, "5e+2": 500,
        "1_000": 1000, "1__0": None, "_1": None, "1_": None,
        "007": 7, "1e400": inf, "1e-400": 0, "1e": None, "1 2": None,
        "--5": None, "+ 5": None, "1,5": None, "": None, " ": None,
        ".": None, "0x10": None, "0b11": None, "٣": None,
        "Inf": inf, "-Infinity": -inf, "NaN": nan, "-nan": nan,
        "true": None, "9007199254740993": 9007199254740992,
        "0.1": 0.1, "123456789012345678901234567890": 1.2345678901234568e29}.items()),
    (["double", True], 1), (["double", 9007199254740993], 9007199254740992),
    (["double", 9007199254740995], 9007199254740996),
    (["double", ["cast", "DECIMAL(18, 3)", "0.1"]], 0.1), (["double", None], None),
    *((["boolean", written], True) for written in ("true", "t", "1", "yes", "y", "TRUE", "tRuE")),
    *((["boolean", written], False) for written in ("false", "f", "0", "no", "n", "No")),
    *((["boolean", written], None) for written in ("on", "off", " true", "2", "", "wahr")),
    (["text", 17], "17"), (["text", -9223372036854775808], "-9223372036854775808"),
    (["text", True], "true"), (["text", False], "false"),
    (["text", None], None), (["text", _day("2026-01-31")], "2026-01-31"),
    (["text", _day("0045-03-15")], "0045-03-15"),
    (["text", ["cast", "DECIMAL(8, 2)", "1.5"]], "1.50"),
    (["text", ["cast", "DECIMAL(8, 2)", "-.5"]], "-0.50"),
    *((["text", ["double", written]], written) for written in (
        "1000000000000000.0", "1e+16", "1.2345678901234568e+17",
        "0.0001", "1e-05", "1.5e-07", "100.0", "0.1", "-0.0",
        "nan", "inf", "-inf", "1e+300", "5e-324", "0.30000000000000004", "1e+22")),
    (["date", AT], date(2026, 1, 31)), (["date", _time("1969-12-31 23:59:59")], date(1969, 12, 31)),
    (["date", ["timestamp", None]], None),
    (["timestamp", _day("2026-01-31")], at("2026-01-31")),
    (["timestamp", AT], at("2026-01-31 12:30:15.987654")), (["timestamp", None], None),
    (["utc", ["timestamp", None]], None),
    *((["text timestamp", written], value and at(value)) for written, value in {
        "2026-01-31": "2026-01-31", "2026-1-5": "2026-01-05",
        "2026/01/31": "2026-01-31", "2026 01 31": "2026-01-31",
        "2026-01-31 12:30": "2026-01-31 12:30:00", "2026-01-31T12:30:00": "2026-01-31 12:30:00",
        "2026-01-31 12:30:15.12": "2026-01-31 12:30:15.120000",
        "2026-01-31 12:30:15.123456789": "2026-01-31 12:30:15.123456",
        "2026-01-31 1:2:3": "2026-01-31 01:02:03", "2026-01-31 24:00:00": "2026-02-01 00:00:00",
        "2026-01-31T12:30:00Z": "2026-01-31 12:30:00", "2026-01-31 12:30:00+02": "2026-01-31 10:30:00",
        "2026-01-31 12:30:00+02:30": "2026-01-31 10:00:00", "2026-01-31 12:30:00-0230": "2026-01-31 15:00:00",
        "2026-01-31 12:30Z": "2026-01-31 12:30:00", "2026-01-31 12:30:00.5Z": "2026-01-31 12:30:00.500000",
        "2026-01-31 12:30:00 UTC": "2026-01-31 12:30:00",
        "2026-01-31 12:30:00 Europe/Berlin": "2026-01-31 11:30:00",
        "2026-07-31 12:30:00 Europe/Berlin": "2026-07-31 10:30:00",
        "2026-02-30": None, "2026-13-01": None, "2026-01": None,
        "20260131": None, "31.01.2026": None, "2026-01-31 12": None,
        "2026-01-31 23:59:60": None, "2026-01-31 25:00:00": None,
        "2026-01-31x": None, "now": None, "today": None, "": None}.items()),
    (["time text", AT], "2026-01-31 12:30:15.987654"),
    (["time text", _time("2026-01-31 12:00:00.500000")], "2026-01-31 12:00:00.5"),
    (["time text", _time("2026-01-31 00:00:00")], "2026-01-31 00:00:00"),
    (["time text", _time("0001-01-01 00:00:00")], "0001-01-01 00:00:00"),
    (["time text", ["timestamp", None]], None),
    (["whole text", 3.0], "3"), (["whole text", -0.0], "0"),
    (["whole text", 1e20], "100000000000000000000"), (["whole text", 2e38], None),
    (["whole text", NAN], None), (["whole text", INF], None),
    *((["cast", "INT", value], found)
      for value, found in ((2.5, 2), (3.5, 4), (-2.5, -2), (0.5, 0), (True, 1), (3e9, None))),
    *((["cast", "INT", written], found) for written, found in {
        "2.5": 3, "3.5": 4, "-2.5": -3, "1e3": 1000, " 7 ": 7,
        "7.": 7, ".5": 1, "0x1f": 31, "0b11": 3, "1_0": 10, "x": None,
        "15e-1": 2, "3000000000": None, "": None}.items()),
    (["cast", "INT", NAN], None), (["cast", "BIGINT", 9223372036854775807.0], None),
    (["cast", "BIGINT", INF], None),
    (["cast", "INT", ["cast", "DECIMAL(8, 1)", "2.5"]], 3),
    (["cast", "INT", ["cast", "DECIMAL(8, 1)", "-2.5"]], -3),
    (["cast", "TINYINT", 128], None), (["cast", "TINYINT", -128], -128), (["cast", "UTINYINT", -1], None),
    (["cast", "UTINYINT", 255.4], 255), (["cast", "UTINYINT", 255.5], None), (["cast", "UTINYINT", -0.4], 0),
    (["cast", "BOOLEAN", 2], True), (["cast", "BOOLEAN", 0], False),
    (["cast", "BOOLEAN", 0.5], True), (["cast", "BOOLEAN", NAN], True),
    (["cast", "DECIMAL(8, 2)", 1.005], Decimal("1.00")),
    (["cast", "DECIMAL(8, 2)", "1.005"], Decimal("1.01")),
    (["cast", "DECIMAL(8, 2)", 0.125], Decimal("0.13")),
    (["cast", "DECIMAL(8, 0)", 2.5], 3), (["cast", "DECIMAL(8, 2)", 1e9], None),
    (["cast", "DECIMAL(4, 0)", 12345], None),
    (["cast", "DECIMAL(8, 1)", ["cast", "DECIMAL(8, 2)", "-1.15"]], Decimal("-1.2")),
]  # fmt: skip

NUMBERS: Final[list[tuple[JSON, Any]]] = [
    (["negative", 5.0], -5), (["negative", ["double", None]], None),
    (["+", 0.1, 0.2], 0.30000000000000004), (["+", 1.0, None], None),
    (["+", 9007199254740992.0, 1.0], 9007199254740992),
    (["-", INF, INF], nan), (["-", 3.0, 5.0], -2), (["*", 1e308, 10.0], inf),
    (["*", 0.0, INF], nan), (["*", 3.0, -0.5], -1.5),
    (["/", 7.0, 2.0], 3.5), (["/", 1.0, 0.0], None), (["/", 1.0, -0.0], None),
    (["/", 0.0, 0.0], None), (["/", INF, INF], nan),
    (["/", 1.0, INF], 0), (["/", NAN, 2.0], nan),
    (["%", 5.0, -3.0], 2), (["%", -5.0, 3.0], -2), (["%", 5.5, 2.0], 1.5), (["%", 5.0, 0.0], None),
    (["%", INF, 3.0], nan), (["%", 5.0, INF], 5),
    (["div", 7.0, 2.0], 3), (["div", -7.0, 2.0], -3), (["div", 7.0, -2.0], -3),
    (["div", 1.0, 0.0], None), (["div", 1.0, 3.0], 0),
    (["abs", -2.5], 2.5), (["abs", NAN], nan), (["floor", -2.5], -3), (["floor", INF], inf),
    (["ceil", -2.5], -2), (["ceil", 2.1], 3),
    (["round", 2.5, 0], 3), (["round", -2.5, 0], -3), (["round", 0.5, 0], 1),
    (["round", 0.49999999999999994, 0], 0), (["round", 2.675, 2], 2.68),
    (["round", 1.005, 2], 1), (["round", 25.0, -1], 30), (["round", -15.0, -1], -20),
    (["round", 1e308, 99], 1e308), (["round", 123.456, 1], 123.5),
    (["round", NAN, 2], nan), (["round", INF, -2], inf),
    (["round", 1e20, -99], 0), (["round", ["double", None], 1], None),
]  # fmt: skip

TEXTS: Final[list[tuple[JSON, Any]]] = [
    (["lower", "ÄB"], "äb"), (["lower", "İ"], "i"), (["lower", "ΑΣ"], "ασ"), (["lower", None], None),
    (["upper", "äb"], "ÄB"), (["upper", "ß"], "ẞ"), (["upper", "ﬁ"], "ﬁ"), (["upper", "ǆ"], "Ǆ"),
    (["length", "\u00e9"], 1), (["length", "e\u0301"], 2),
    (["length", "🤦🏼‍♂️"], 5), (["length", ""], 0), (["length", None], None),
    (["concat", None, "a", None], "a"), (["concat", None], ""), (["concat", "a", "b", "c"], "abc"),
    (["join", "a", "b"], "ab"), (["join", "a", None], None),
    (["trim", " a "], "a"), (["trim", " \u00a0\u2003a\u3000"], "a"), (["trim", "\ta\n"], "\ta\n"),
    (["trim", "xyaxy", "yx"], "a"), (["trim", "aa", "a"], ""),
    (["ltrim", "  a "], "a "), (["ltrim", "xxax", "x"], "ax"),
    (["rtrim", " a  "], " a"), (["rtrim", "aé", "é"], "a"),
    *((["substring", "abcdef", *places], found) for places, found in (
        ((2.0,), "bcdef"), ((0.0,), "abcdef"), ((-2.0,), "ef"), ((9.0,), ""),
        ((-8.0,), "abcdef"), ((2.0, 2.0), "bc"), ((0.0, 2.0), "a"),
        ((-2.0, 1.0), "e"), ((2.0, -1.0), "a"), ((3.0, 0.0), ""),
        ((-10.0, 5.0), "a"), ((-1.0, -2.0), "de"), ((1.0, 100.0), "abcdef"),
        ((2.5, 1.0), "b"), ((NAN, 1.0), None))),
    (["substring", "äöü", 2.0, 1.0], "ö"), (["substring", None, 1.0], None),
    (["substring", "abc", None], None),
]  # fmt: skip

_PARTS: Final = {"year": 2026, "isoyear": 2026, "quarter": 1, "month": 1, "week": 5, "day": 31, "dow": 6,
                 "isodow": 6, "doy": 31,
                 "hour": 12, "minute": 30, "second": 15}  # fmt: skip
_STARTS: Final = {"year": "2026-01-01", "quarter": "2026-01-01", "month": "2026-01-01", "week": "2026-01-26",
                  "day": "2026-01-31",
                  "hour": "2026-01-31 12:00:00", "minute": "2026-01-31 12:30:00",
                  "second": "2026-01-31 12:30:15"}  # fmt: skip
_EVE: Final = _time("2025-12-31 23:59:59.900000")
_YEAR: Final = _time("2026-01-01 00:00:00")

TIMES: Final[list[tuple[JSON, Any]]] = [
    (AT, at("2026-01-31 12:30:15.987654")),
    *((["part", unit, AT], value) for unit, value in _PARTS.items()),
    (["part", "week", _time("2027-01-01 00:00:00")], 53),
    (["part", "isoyear", _time("2027-01-01 00:00:00")], 2026),
    (["part", "dow", _time("2026-02-01 00:00:00")], 0), (["part", "isodow", _time("2026-02-01 00:00:00")], 7),
    (["part", "second", _time("1969-12-31 23:59:59.500000")], 59),
    (["part", "year", ["timestamp", None]], None),
    *((["truncate", unit, AT], at(value)) for unit, value in _STARTS.items()),
    (["truncate", "quarter", _time("2026-06-30 00:00:00")], at("2026-04-01")),
    (["truncate", "hour", _time("1969-12-31 23:30:00")], at("1969-12-31 23:00:00")),
    *((["difference", unit, _EVE, _YEAR], 1)
      for unit in ("year", "quarter", "month", "day", "hour", "minute", "second")),
    (["difference", "week", _EVE, _YEAR], 0), (["difference", "day", _YEAR, _EVE], -1),
    (["difference", "year", _YEAR, _YEAR], 0),
    (["difference", "week", _time("2026-02-01 23:00:00"), _time("2026-02-02 00:00:00")], 1),
    (["difference", "week", _time("2026-02-02 00:00:00"), _time("2026-02-08 23:00:00")], 0),
    (["difference", "week", _time("2026-02-02 00:00:00"), _time("2026-02-01 23:00:00")], -1),
    (["difference", "week", _time("1960-01-01 00:00:00"), _time("1960-01-19 00:00:00")], 3),
    (["difference", "hour", _time("1960-12-31 22:30:00"), _time("1960-12-31 23:10:00")], 1),
    (["difference", "day", _day("2026-03-01"), _day("2026-02-27")], -2),
    (["difference", "day", None, AT], None),
    *((["later", _time(start), ["interval", span]], at(found)) for start, span, found in (
        ("2026-01-31 12:00:00", "1 month", "2026-02-28 12:00:00"),
        ("2026-01-31 12:00:00", "1 month 1 day", "2026-03-01 12:00:00"),
        ("2024-02-29 00:00:00", "1 year", "2025-02-28"), ("2026-01-31 00:00:00", "1 quarter", "2026-04-30"),
        ("2026-01-31 00:00:00", "2 week -3 hour", "2026-02-13 21:00:00"),
        ("2026-01-31 00:00:00", "-1 month", "2025-12-31"),
        ("2026-03-29 00:30:00", "25 hour", "2026-03-30 01:30:00"),
        ("2026-01-31 00:00:00", "5 millisecond 7 microsecond", "2026-01-31 00:00:00.005007"))),
    (["earlier", _time("2026-03-31 00:00:00"), ["interval", "1 month 1 day"]], at("2026-02-27")),
    (["earlier", AT, ["interval", "3 day"]], at("2026-01-28 12:30:15.987654")),
    (["later", ["timestamp", None], ["interval", "1 day"]], None),
    (["days later", _day("2026-01-31"), 2.0], date(2026, 2, 2)),
    (["days later", _day("2026-01-31"), 2.5], date(2026, 2, 2)),
    (["days later", _day("2026-01-31"), 3e9], None),
    (["days later", _day("2026-01-31"), ["double", None]], None),
    (["days earlier", _day("2026-03-01"), 1.0], date(2026, 2, 28)),
    (["days earlier", _day("2026-03-01"), NAN], None),
]  # fmt: skip

_MANY: Final = ("z", "b", "ä", "e", "\uffff", "𝄞", "a", "b", "", "E")
"""More texts than are compared one after the other; in no order, and one of them twice."""

MEASURES: Final[list[tuple[JSON, Any]]] = [
    *((["place", text, *_MANY], None if text not in _MANY else _MANY.index(text))
      for text in (*_MANY[:7], "", "E", "c", "zz", "\x00", "é", "￾")),
    (["place", ["text", None], *_MANY], None),
    (["place", "b", "a", "b"], 1), (["place", "c", "a", "b"], None),
    (["place", None, "a"], None), (["place", True, False, True], 1),
    (["place", 2.0, 1.0, 2.0], 1), (["place", AT, _time("2026-01-01 00:00:00"), AT], 1),
    (["place", "A", "a"], None),
    (["cell", 2, 3, 1], 7), (["cell", None, 3, 1], None), (["cell", 2, 3, None], None),
    (["where", True, 4], 4), (["where", False, 4], None),
    (["where", ["boolean", None], 4], None), (["where", True, None], None),
    (["outside", True, None], True), (["outside", True, 4], False),
    (["outside", ["boolean", None], None], False), (["outside", False, None], False),
    (["counts", None], 0), (["counts", ""], 1), (["counts", NAN], 1), (["counts number", NAN], 0),
    (["counts number", ["double", None]], 0),
    (["counts number", INF], 1), (["counts number", 0.0], 1),
    *((["steps", value, -3.0, 10.0, 4.0, 1.0, 0], found) for value, found in (
        (0.125, 1), (-0.125, -1), (0.124, 0), (10.5, 40), (-99.0, -12),
        (INF, 40), (NAN, 0), (["double", None], 0), (2.5, 10))),
    (["steps", 7.0, 0.0, 20.0, 1.0, 2.0, 3], 1), (["steps", ["double", None], 0.0, 20.0, 1.0, 2.0, 3], 0),
    (["steps", 4.0, 0.0, 6.0, 3.0, 2.0, 0], 6),
]  # fmt: skip

CASES: Final = [*CONDITIONS, *CHOICES, *KINDS, *NUMBERS, *TEXTS, *TIMES, *MEASURES]
"""Every case; the row before the change does not exist, the row after it does."""

DIFFERENCES: Final[dict[str, list[JSON]]] = {
    "NULL in an order": [["least", None, 3, 2], ["greatest", None, 3, 2], ["<", INF, NAN], [">=", None, 1],
                         ["between", 5, None, 3]],
    "integer division": [["div", -7.0, 2.0], ["div", 7.0, -2.0], ["%", -5.0, 3.0], ["div", 1.0, 0.0],
                         ["/", 1.0, 0.0]],
    "time zones": [AT, ["truncate", "hour", _time("1969-12-31 23:30:00")],
                   ["text timestamp", "2026-07-31 12:30:00 Europe/Berlin"],
                   ["later", _time("2026-03-29 00:30:00"), ["interval", "25 hour"]],
                   ["date", _time("1969-12-31 23:59:59")]],
    "casts": [["cast", "INT", 2.5], ["cast", "INT", "2.5"], ["cast", "DECIMAL(8, 2)", 1.005],
              ["boolean", "wahr"], ["double", "1_000"]],
    "overflow": [["cast", "TINYINT", 128], ["cast", "BIGINT", 9223372036854775807.0],
                 ["days later", _day("2026-01-31"), 3e9],
                 ["round", 1e308, 99], ["cast", "DECIMAL(4, 0)", 12345], ["whole text", 2e38]],
}  # fmt: skip
"""Where engines differ of themselves, and cases of each; all engines are run through all cases."""
