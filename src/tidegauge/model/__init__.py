"""Frozen values, no I/O: what the other folders speak of."""
