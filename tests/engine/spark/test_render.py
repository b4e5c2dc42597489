"""Every operation gives the documented value in Spark as well: the same cases as in the embedded engine."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.engine.semantics import CASES
from tests.engine.test_semantics import FIXED, TYPES, agree, expression, named
from tidegauge.engine.spark.render import Renderer, literal
from tidegauge.engine.spark.session import settled
from tidegauge.model.expression import Call, Column, Constant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

GAPS = {named(["text", ["double", "5e-324"]])}
"""Java before 19 writes the smallest doubles with more digits than are needed."""
SPARK = {"VARCHAR": "STRING"}


def computed(spark: SparkSession, chosen: list[tuple[str, str, Any]]) -> list[Any]:
    """The values of many expressions at once; each with the type and the value of the column `v`."""
    shapes = ", ".join(
        f"named_struct('v', CAST({literal(value)} AS {kind})) AS r{n}"
        for n, (_, kind, value) in enumerate(chosen)
    )

    def named(n: int, sql: str) -> str:
        renamed = sql.replace("after.`v`", f"r{n}.`v`").replace("(after IS", f"(r{n} IS")
        return f"{renamed.replace('(before IS', '(NULL IS')} AS x{n}"

    parts = [named(n, sql) for n, (sql, _, _) in enumerate(chosen)]
    with settled(spark):
        (row,) = spark.sql(f"SELECT {', '.join(parts)} FROM (SELECT {shapes})").collect()
    return [one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in row]


def test_spark_gives_the_documented_values(spark: SparkSession) -> None:
    asked: list[tuple[str, Any, str, str, Any]] = []
    for form, expected in CASES:
        node = expression(form)
        asked.append((named(form), expected, Renderer({"v": "INT"})(node), "INT", None))
        match node:
            case Call(operation, (Constant(value), *rest)) if operation not in FIXED and value is not None:
                kind = SPARK.get(TYPES[type(value)], TYPES[type(value)])
                of_column = Call(operation, (Column("after", "v"), *rest))
                asked.append(
                    (f"{named(form)} of a column", expected, Renderer({"v": kind})(of_column), kind, value)
                )
    wrong = {}
    for first in range(0, len(asked), 40):
        part = asked[first : first + 40]
        for (name, expected, *_), found in zip(
            part, computed(spark, [(a[2], a[3], a[4]) for a in part]), strict=True
        ):
            if not agree(found, expected) and name not in GAPS:
                wrong[name] = (found, expected)
    assert not wrong
