"""Stands in for Debezium Server: posts events one by one, in order, each until it is acknowledged."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import urllib.error
import urllib.request


def post(event: dict[str, object]) -> None:
    request = urllib.request.Request(
        "http://127.0.0.1:8321/debezium",
        json.dumps(event).encode(),
        {"Authorization": f"Bearer {os.environ['INBOX_TOKEN']}", "Content-Type": "application/json"},
    )
    for _ in range(100):
        try:
            with urllib.request.urlopen(request):  # noqa: S310
                return
        except urllib.error.HTTPError:
            raise  # it will not be taken the next time either
        except OSError:
            time.sleep(0.1)  # the receiver has not started yet
    raise SystemExit("no receiver answers")


def main(count: int) -> None:
    for number in range(1, count + 1):
        row = {"id": number, "region": random.choice(["north", "south"]), "age": random.randrange(100)}
        source = {"connector": "postgresql", "schema": "public", "table": "patients",
                  "ts_us": time.time_ns() // 1000,
                  "sequence": json.dumps([str(number), str(number)])}  # fmt: skip
        post({"before": None, "after": row, "op": "c", "source": source})
    print(f"{count} events were acknowledged.")


if __name__ == "__main__":
    main(int(sys.argv[1]))
