"""The releases of a gauge on a table of people, nearly without noise."""

from __future__ import annotations

import time

EVERY = "250 milliseconds"
"""From one reading to the next: short, because a test waits for it on a real clock."""
AGES = "SELECT SUM(age) FROM people"


def releases(
    *, at_most: int = 1_000_000, where: str = "", other: str = "ages", sql: str = AGES, every: str = EVERY
) -> str:
    """The part of a declaration after [source]: people by city, and a sum of ages.

    where: which people are counted by city.  other, sql: the name and the query of the second release.
    """
    return f"""
[constraint]
at_most = {at_most}

[budget]
epsilon = 1e15

[release.by_city]
sql = "SELECT city, COUNT(*) FROM people{where and f" WHERE {where}"} GROUP BY city"
groups.city = ["north", "south"]
every = "{every}"

[release.{other}]
sql = "{sql}"
bounds.age = [0, 120]
every = "{every}"
"""


def await_reading() -> None:
    """Wait until the next reading of such a release is due."""
    time.sleep(0.3)
