"""Seconds of one noisy count by group with Tumult Analytics, and of Spark's own count beside it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from typing import Any

from pyspark.sql import SparkSession
from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session


def main(asked: dict[str, Any]) -> dict[str, Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers' Python too
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    warehouse = tempfile.mkdtemp()  # Tumult leaves tables there
    builder = builder.config("spark.sql.warehouse.dir", warehouse)
    spark = builder.config("spark.sql.shuffle.partitions", "8").getOrCreate()
    table = spark.read.parquet(asked["path"]).select("id", "region")
    groups = KeySet.from_dict({"region": asked["groups"]})
    found: dict[str, list[float]] = {"count": [], "GROUP BY": []}
    for _ in range(asked["repeats"] + 1):  # the first warms the session
        begin = time.perf_counter()
        session = Session.from_dataframe(
            privacy_budget=PureDPBudget(1), source_id="t", dataframe=table, protected_change=AddOneRow()
        )
        query = QueryBuilder("t").groupby(groups).count()
        rows = session.evaluate(query, privacy_budget=PureDPBudget(1)).collect()
        found["count"].append(time.perf_counter() - begin)
        begin = time.perf_counter()
        table.groupBy("region").count().collect()
        found["GROUP BY"].append(time.perf_counter() - begin)
    spark.stop()
    shutil.rmtree(warehouse)
    return {name: each[1:] for name, each in found.items()} | {"rows": len(rows)}


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
