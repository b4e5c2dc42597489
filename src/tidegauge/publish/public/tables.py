"""The tables of a public file."""

from __future__ import annotations

from typing import Final

FORMAT: Final = 1
APPLICATION: Final = 0x54475042
"""Distinguishes a public file from a store and from other SQLite files."""

TABLES: Final = (
    "CREATE TABLE document (part TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, "
    "body TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE seals (seq INTEGER PRIMARY KEY, time INTEGER, hash TEXT NOT NULL)",
    "CREATE TABLE releases (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, position INTEGER NOT NULL, "
    "body TEXT NOT NULL)",
    "CREATE TABLE readings (release INTEGER NOT NULL REFERENCES releases(id), number INTEGER NOT NULL, "
    "cell INTEGER NOT NULL, time INTEGER NOT NULL, value REAL, stderr REAL, low REAL NOT NULL, "
    "high REAL NOT NULL, low_50 REAL NOT NULL, high_50 REAL NOT NULL, "
    "PRIMARY KEY (release, number, cell)) WITHOUT ROWID",
)
"""Of one release, numbers have no gaps and every number has all cells: a page of readings is found without
counting those before it."""

DENOISED: Final = (
    "CREATE TABLE IF NOT EXISTS denoised (release INTEGER NOT NULL REFERENCES releases(id), "
    "number INTEGER NOT NULL, cell INTEGER NOT NULL, value REAL NOT NULL, stderr REAL NOT NULL, "
    "low REAL NOT NULL, high REAL NOT NULL, PRIMARY KEY (release, number, cell)) WITHOUT ROWID"
)
"""A model's estimates, written again with every batch; older files do not have this table."""
