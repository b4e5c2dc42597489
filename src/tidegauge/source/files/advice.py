"""What to do with a file that is not of a kind that can be read, or is not text in UTF-8."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_ENDINGS: Final = ".csv, .tsv, .jsonl, .ndjson or .parquet, or one of these and .gz"
_CONTROL: Final = (
    "the text contains a control character (byte {}), so the file may not be text in UTF-8. If it is UTF-16, "
    "convert it: iconv -f UTF-16LE -t UTF-8; else remove the character"
)


def ending(name: str) -> str:
    """The message for a file whose name does not say what it contains."""
    match Path(name.removesuffix(".gz")).suffix.lower():
        case ".json":
            return (
                "a .json file is one whole text; write one object a line and name the file .jsonl (a list: "
                "jq -c '.[]' FILE.json > FILE.jsonl)"
            )
        case ".xlsx" | ".xls" | ".ods":
            return "a spreadsheet is not read; save the sheet as CSV UTF-8, and name that file"
    return f"the name must end in {_ENDINGS}; rename the file to what it contains"


def bad_bytes(text: str, forbidden: str) -> tuple[str, int] | None:
    """What is wrong with bytes that were read as one character each, and at which of them."""
    try:
        text.encode("latin-1").decode()
    except UnicodeDecodeError as error:
        return _not_utf_8(text), error.start
    for character in forbidden:
        if character in text:
            return _CONTROL.format(ord(character)), text.index(character)
    return None


def _not_utf_8(text: str) -> str:
    """The message for bytes that are not UTF-8, with the command that converts the file."""
    wide = text.startswith(("\xff\xfe", "\xfe\xff"))
    found = "UTF-16" if wide else "ISO-8859-1 or windows-1252, perhaps"
    code = "UTF-16" if wide else "WINDOWS-1252"
    return (
        f"the text is not UTF-8 ({found}). Save the file as UTF-8 (Excel: CSV UTF-8), "
        f"or convert it: iconv -f {code} -t UTF-8"
    )
