"""Ledger, journal and state in one file, one transaction a tick."""
