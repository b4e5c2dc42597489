"""Readers of JSON give the type that they name, or refuse without showing the value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidegauge.model.json import (
    as_flag,
    as_list,
    as_number,
    as_object,
    as_scalar,
    as_text,
    as_whole,
    lists,
    objects,
    parse_json,
    tables,
    texts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.model.json import Json

VALUES = ("4711", True, 4711, 4711.5, None, ["4711"], {"4711": 4711})
ACCEPTED: dict[Callable[[Json], object], tuple[int, ...]] = {
    as_text: (0,),
    as_flag: (1,),
    as_whole: (2,),
    as_number: (2, 3),
    as_scalar: (0, 2, 3),
    as_list: (5,),
    as_object: (6,),
}
"""Reader -> the numbers of the values that it accepts."""


@pytest.mark.parametrize("reader", ACCEPTED, ids=lambda reader: reader.__name__)
@pytest.mark.parametrize("number", range(len(VALUES)))
def test_a_reader_accepts_its_own_type_alone(reader: Callable[[Json], object], number: int) -> None:
    value = VALUES[number]
    if number in ACCEPTED[reader]:
        assert reader(value) is value
        return
    with pytest.raises(TypeError, match=" where ") as refused:
        reader(value)
    assert "4711" not in str(refused.value)


def test_readers_of_many_read_each() -> None:
    found = parse_json('{"a": [{"x": 1}, {}], "b": [[1], []], "c": {"d": {"x": 1}}, "e": {"f": "g"}}')
    record = as_object(found)
    assert objects(record["a"]) == [{"x": 1}, {}]
    assert lists(record["b"]) == [[1], []]
    assert tables(record["c"]) == {"d": {"x": 1}}
    assert texts(record["e"]) == {"f": "g"}
    for reader in (objects, lists, tables, texts):
        with pytest.raises(TypeError):
            reader({"a": 1})
