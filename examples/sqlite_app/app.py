"""A library's application: lends books, takes them back, and keeps its loans in library.db."""

from __future__ import annotations

import random
import sqlite3
import sys
from contextlib import closing


def main(days: int) -> None:
    with closing(sqlite3.connect("library.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(
            "CREATE TABLE IF NOT EXISTS loans (id INTEGER PRIMARY "
            "KEY, reader INTEGER NOT NULL, kind TEXT NOT NULL)"
        )
        for _ in range(days):
            with db:  # one transaction
                kind = random.choice(["novel", "science", "children"])
                db.execute("INSERT INTO loans (reader, kind) VALUES (?, ?)", (random.randrange(100), kind))
                if random.random() < 0.5:
                    db.execute(
                        "DELETE FROM loans WHERE id = (SELECT id FROM loans ORDER BY random() LIMIT 1)"
                    )
    print(f"{days} days went by.")


if __name__ == "__main__":
    main(int(sys.argv[1]))
