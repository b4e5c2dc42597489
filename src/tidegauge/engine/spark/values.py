"""Operations on values in Spark's SQL, where Spark's own give something else: SQL text in, SQL text out.

docs/expressions.md says what each one gives.  Nothing here raises in ANSI mode.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

NAN: Final = "double('NaN')"
INFINITE: Final = "double('Infinity')"
MONTHS: Final = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}
DAYS: Final = {"day": 1, "week": 7}
MICROS: Final = {
    "microsecond": 1, "millisecond": 1000, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6
}  # fmt: skip
WIDTHS: Final = {
    "TINYINT": 8, "SMALLINT": 16, "INT": 32, "INTEGER": 32, "BIGINT": 64, "INT128": 128, "HUGEINT": 128
}  # fmt: skip
UNSIGNED: Final = {"UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}
SHORT: Final = 120
"""Text of SQL up to this length is written out where it is used several times."""
_names: Final = count()
_SPACES: Final = r"[ \\t\\n\\x0B\\f\\r]"
_DIGITS: Final = "[0-9]+(_[0-9]+)*"
_NUMBER: Final = rf"^{_SPACES}*[+-]?({_DIGITS}[.]?({_DIGITS})?|[.]{_DIGITS})([eE][+-]?[0-9]+)?{_SPACES}*\\z"
_SPECIAL: Final = rf"^{_SPACES}*[+-]?(?i:nan|inf|infinity){_SPACES}*\\z"
_TIME: Final = (
    r"^([0-9]{1,4})([-/ ])([0-9]{1,2})\\2([0-9]{1,2})"
    r"([ T]([0-9]{1,2}):([0-9]{1,2})(:([0-9]{1,2})([.]([0-9]+))?)?"
    r"(Z|\\s?([+-])([0-9]{2})(:?([0-9]{2}))?|\\s([A-Za-z_/]+))?)?\\z"
)


def let(value: str, body: Callable[[str], str]) -> str:
    """A value that is used several times: written out if it is short, else computed once."""
    if len(value) <= SHORT:
        return body(value)
    name = f"let{next(_names)}"
    return f"element_at(transform(array({value}), {name} -> {body(name)}), 1)"


# -- numbers from text and back ------------------------------------------------------------------------------


def double_of_text(text: str) -> str:
    """Spark would also read '5d', and would not read '1_000'."""
    return let(text, _double_of_text)


def _double_of_text(text: str) -> str:
    special = (
        f"CASE WHEN lower({text}) LIKE '%nan%' THEN {NAN} WHEN {text} LIKE '%-%' THEN -{INFINITE} "
        f"ELSE {INFINITE} END"
    )
    return (
        f"CASE WHEN {text} RLIKE '{_NUMBER}' "
        f"THEN try_cast(regexp_replace({text}, '_|{_SPACES}', '') AS DOUBLE) "
        f"WHEN {text} RLIKE '{_SPECIAL}' THEN {special} END"
    )


def boolean_of_text(text: str) -> str:
    """One of ten words in any letter case."""
    return (
        f"CASE lower({text}) WHEN 'true' THEN TRUE WHEN 't' THEN TRUE WHEN 'yes' THEN TRUE "
        "WHEN 'y' THEN TRUE WHEN '1' THEN TRUE WHEN 'false' THEN FALSE WHEN 'f' THEN FALSE "
        "WHEN 'no' THEN FALSE WHEN 'n' THEN FALSE WHEN '0' THEN FALSE END"
    )


def text_of_double(number: str) -> str:
    """The shortest digits: Spark finds them too (1.0E16, 1.5E-7), and writes them in another way."""
    return let(f"CAST({number} AS STRING)", _laid_out)


def _laid_out(text: str) -> str:
    sign = f"CASE WHEN {text} LIKE '-%' THEN '-' ELSE '' END"
    mantissa = f"regexp_replace(regexp_extract({text}, '^-?([0-9.]+)E', 1), '[.]0$', '')"
    digits = f"regexp_replace({mantissa}, '[.]', '')"

    def by_power(power: str) -> str:
        exponent = f"CAST(abs({power}) AS STRING)"
        scientific = (
            f"concat({sign}, {mantissa}, 'e', CASE WHEN {power} < 0 THEN '-' ELSE '+' END, "
            f"lpad({exponent}, greatest(2, length({exponent})), '0'))"
        )
        small = f"concat({sign}, '0.', repeat('0', greatest(0, -{power} - 1)), {digits})"
        padded = f"rpad({digits}, greatest({power} + 2, length({digits})), '0')"
        large = f"concat({sign}, substring({padded}, 1, {power} + 1), '.', substring({padded}, {power} + 2))"
        return (
            f"CASE WHEN {power} >= 16 OR {power} < -4 THEN {scientific} WHEN {power} < 0 THEN {small} "
            f"ELSE {large} END"
        )

    power = let(f"CAST(regexp_extract(concat({text}, 'E0'), 'E(-?[0-9]+)', 1) AS INT)", by_power)
    return (
        f"CASE {text} WHEN 'NaN' THEN 'nan' WHEN 'Infinity' THEN 'inf' WHEN '-Infinity' THEN '-inf' "
        f"ELSE CASE WHEN {text} LIKE '%E%' THEN {power} ELSE {text} END END"
    )


def decimal_of_text(text: str) -> str:
    """A written number, exact enough to be rounded; NULL if it is none."""
    clean = f"regexp_replace({text}, '_|{_SPACES}', '')"
    return f"CASE WHEN {text} RLIKE '{_NUMBER}' THEN try_cast({clean} AS DECIMAL(38, 12)) END"


def integer(found: str, kind: str, name: str) -> str:
    """Cast to an integer type, NULL if it does not fit: doubles half to even, others half away from zero."""
    if name in UNSIGNED:
        least, most = 0, 2 ** UNSIGNED[name]
    else:
        least, most = -(2 ** (WIDTHS[name] - 1)), 2 ** (WIDTHS[name] - 1)
    if kind == "double":
        exact = let(
            f"rint({found})",
            lambda one: f"CASE WHEN abs({one}) < 1e38D THEN CAST({one} AS DECIMAL(38, 0)) END",
        )
    elif kind == "text":
        exact = let(found, _integer_of_text)
    elif kind == "boolean":
        exact = f"CAST(CAST({found} AS INT) AS DECIMAL(38, 0))"
    else:
        exact = f"try_cast(round({found}, 0) AS DECIMAL(38, 0))"
    goal = "BIGINT" if most <= 2**63 else "DECIMAL(38, 0)"
    low, high = f"{max(least, 1 - 10**38)}BD", f"{min(most, 10**38) - 1}BD"
    return let(exact, lambda one: f"CASE WHEN {one} BETWEEN {low} AND {high} THEN CAST({one} AS {goal}) END")


def _integer_of_text(text: str) -> str:
    bare = f"lower(regexp_replace({text}, '{_SPACES}', ''))"
    return (
        f"CASE WHEN {bare} RLIKE '^0x[0-9a-f]{{1,15}}\\\\z' "
        f"THEN CAST(conv(substring({bare}, 3), 16, 10) AS DECIMAL(38, 0)) "
        f"WHEN {bare} RLIKE '^0b[01]{{1,62}}\\\\z' "
        f"THEN CAST(conv(substring({bare}, 3), 2, 10) AS DECIMAL(38, 0)) "
        f"ELSE CAST(round({decimal_of_text(text)}, 0) AS DECIMAL(38, 0)) END"
    )


def decimal(found: str, kind: str, digits: int, places: int) -> str:
    """Cast to a decimal, NULL if it does not fit, half away from zero; doubles are scaled as doubles."""
    goal = f"DECIMAL({digits}, {places})"
    if kind == "double":
        return let(
            half_away(f"({found} * {float(10**places)!r}D)"),
            lambda steps: (
                f"CASE WHEN abs({steps}) < {float(10**digits)!r}D "
                f"THEN try_cast(CAST({steps} AS DECIMAL(38, 0)) / {10**places}BD AS {goal}) END"
            ),
        )
    exact = decimal_of_text(found) if kind == "text" else f"try_cast({found} AS DECIMAL(38, 12))"
    return f"try_cast(round({exact}, {places}) AS {goal})"


# -- numbers -------------------------------------------------------------------------------------------------


def cut(number: str) -> str:
    """Without its fraction, as a double.  From 2^52 on a double has none; NaN and infinities stay."""
    return let(
        number,
        lambda one: (
            f"CASE WHEN abs({one}) < 4503599627370496D THEN CAST(CAST({one} AS BIGINT) AS DOUBLE) "
            f"ELSE {one} END"
        ),
    )


def half_away(number: str) -> str:
    """The nearest integer as a double, halves away from zero; exact, unlike floor(x + 0.5)."""

    def rounded(one: str) -> str:
        whole = f"CAST(CAST({one} AS BIGINT) AS DOUBLE)"
        up = f"CASE WHEN abs({one} - {whole}) >= 0.5D THEN signum({one}) ELSE 0D END"
        return f"CASE WHEN abs({one}) < 4503599627370496D THEN {whole} + {up} ELSE {one} END"

    return let(number, rounded)


def floor(number: str, *, up: bool = False) -> str:
    """The next integer below (`up`: above), as a double."""
    step, past = ("+ 1D", "<") if up else ("- 1D", ">")

    def floored(one: str) -> str:
        whole = f"CAST(CAST({one} AS BIGINT) AS DOUBLE)"
        inside = f"CASE WHEN {whole} {past} {one} THEN {whole} {step} ELSE {whole} END"
        return f"CASE WHEN abs({one}) < 4503599627370496D THEN {inside} ELSE {one} END"

    return let(number, floored)


def rounded(number: str, places: int) -> str:
    """Rounded to so many decimal places, all in doubles."""
    scale = f"CAST('1e{abs(places)}' AS DOUBLE)"
    there, back = ("*", "/") if places >= 0 else ("/", "*")
    return let(
        number,
        lambda one: let(
            f"({one} {there} {scale})",
            lambda scaled: (
                f"CASE WHEN abs({scaled}) < {INFINITE} THEN {half_away(scaled)} {back} {scale} ELSE {one} END"
            ),
        ),
    )


# -- text ----------------------------------------------------------------------------------------------------


def lower(text: str) -> str:
    """Each code point on its own: no final sigma, no letter that becomes two."""
    return _by_character("lower", "WHEN x = '\u0130' THEN 'i' ", text)


def upper(text: str) -> str:
    """Each code point on its own."""
    return _by_character("upper", "WHEN x = '\u00df' THEN '\u1e9e' ", text)


def _by_character(function: str, special: str, text: str) -> str:
    one = f"CASE {special}WHEN length({function}(x)) = 1 THEN {function}(x) ELSE x END"
    return f"array_join(transform(regexp_extract_all({text}, '(?s)(.)', 1), x -> {one}), '')"


def substring(text: str, start: str, length: str | None) -> str:
    """start and length are integers; 0 is the place before the first, a negative length goes to the left."""

    def from_place(begin: str) -> str:
        if length is None:
            first = f"CAST(least(greatest({begin}, 1L), 2147483647L) AS INT)"
            return f"CASE WHEN {begin} IS NOT NULL THEN substring({text}, {first}) END"
        return let(length, lambda size: _cut_out(text, begin, size))

    placed = (
        f"CASE WHEN {start} < 0 THEN greatest(length({text}) + {start} + 1, -2147483647L) ELSE {start} END"
    )
    return let(start, lambda one: let(placed.replace(start, one), from_place))


def _cut_out(text: str, begin: str, size: str) -> str:
    low = f"greatest(CASE WHEN {size} < 0 THEN {begin} + {size} ELSE {begin} END, 1L)"
    high = f"CASE WHEN {size} < 0 THEN {begin} ELSE {begin} + {size} END"
    most = "2147483647L"
    return (
        f"CASE WHEN {begin} IS NOT NULL AND {size} IS NOT NULL THEN substring({text}, "
        f"CAST(least({low}, {most}) AS INT), CAST(least(greatest({high} - {low}, 0L), {most}) AS INT)) END"
    )


# -- times ---------------------------------------------------------------------------------------------------


def timestamp_of_text(text: str) -> str:
    """Text without a zone is UTC.  24:00:00 is the next midnight; there is no 60th second."""
    return let(text, _timestamp_of_text)


def _timestamp_of_text(text: str) -> str:
    def part(n: int) -> str:
        return f"regexp_extract({text}, '{_TIME}', {n})"

    def number(n: int) -> str:
        return f"coalesce(try_cast({part(n)} AS BIGINT), 0L)"

    written = f"concat(lpad({part(1)}, 4, '0'), '-', lpad({part(3)}, 2, '0'), '-', lpad({part(4)}, 2, '0'))"
    offset = f"CASE {part(13)} WHEN '-' THEN -1L ELSE 1L END * ({number(14)} * 3600L + {number(16)} * 60L)"
    fraction = f"CAST(rpad(substring({part(11)}, 1, 6), 6, '0') AS BIGINT)"
    fields = (
        f"named_struct('day', try_cast({written} AS DATE), 'hour', {number(6)}, 'minute', {number(7)}, "
        f"'second', {number(9)}, 'fraction', {fraction}, 'offset', {offset}, 'zone', {part(17)})"
    )
    return f"CASE WHEN {text} RLIKE '{_TIME}' THEN {let(fields, _put_together)} END"


def _put_together(one: str) -> str:
    plain = f"{one}.hour < 24 AND {one}.minute < 60 AND {one}.second < 60"
    midnight = f"{one}.hour = 24 AND {one}.minute = 0 AND {one}.second = 0 AND {one}.fraction = 0"
    seconds = f"({one}.hour * 3600L + {one}.minute * 60L + {one}.second - {one}.offset)"
    local = f"timestamp_micros(unix_date({one}.day) * 86400000000L + {seconds} * 1000000L + {one}.fraction)"
    form = "yyyy-MM-dd HH:mm:ss.SSSSSS"
    zoned = (
        f"CASE WHEN {one}.zone RLIKE '^([A-Z][A-Za-z_]+(/[A-Z][A-Za-z_]+)+|UTC|GMT)\\\\z' THEN "
        f"try_to_timestamp(concat(date_format({local}, '{form}'), ' ', {one}.zone), '{form} VV') END"
    )
    return f"CASE WHEN {plain} OR {midnight} THEN CASE {one}.zone WHEN '' THEN {local} ELSE {zoned} END END"


def text_of_time(time: str) -> str:
    """With as many digits of the fraction as it has; NULL outside of the years 1 to 9999."""
    text = f"date_format({time}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
    cut_off = f"regexp_replace(regexp_replace({text}, '0+$', ''), '[.]$', '')"
    whole = f"date_format({time}, 'yyyy-MM-dd HH:mm:ss')"
    return (
        f"CASE WHEN year({time}) BETWEEN 1 AND 9999 THEN "
        f"CASE WHEN {text} LIKE '%.000000' THEN {whole} ELSE {cut_off} END END"
    )


def difference(unit: str, start: str, end: str) -> str:
    """How many beginnings of the unit lie after start, up to end."""
    if unit in MONTHS:
        counted = [f"floor((year({one}) * 12 + month({one}) - 1) / {MONTHS[unit]}D)" for one in (end, start)]
    elif unit in DAYS:
        begins = [f"unix_date(CAST(date_trunc('{unit}', {one}) AS DATE))" for one in (end, start)]
        counted = [f"floor(({one} + 3) / {DAYS[unit]}D)" for one in begins]
    else:
        counted = [
            f"floor(CAST(unix_micros({one}) AS DECIMAL(20, 0)) / {MICROS[unit]}BD)" for one in (end, start)
        ]
    return f"(CAST({counted[0]} AS BIGINT) - CAST({counted[1]} AS BIGINT))"


def moved(time: str, months: int, days: int, micros: int) -> str:
    """Months first, then days, then microseconds: in UTC a day has 24 hours."""
    found = time
    if months:
        clock = f"(unix_micros({time}) - unix_micros(date_trunc('day', {time})))"
        day = f"unix_date(add_months(CAST({time} AS DATE), {months}))"
        found = f"timestamp_micros({day} * 86400000000L + {clock})"
    return f"timestamp_micros(unix_micros({found}) + {days * 86_400_000_000 + micros}L)"
