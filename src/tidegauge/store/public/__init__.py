"""Ledger, journal, readings and witness: the part of a store that may be published."""
