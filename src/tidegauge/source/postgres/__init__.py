"""Tables of a PostgreSQL server, followed through its log."""
