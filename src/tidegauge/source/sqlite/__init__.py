"""Tables of a live SQLite file, followed through triggers."""
