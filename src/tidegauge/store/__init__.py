"""Ledger, journal and state in one file, one transaction a tick."""

from tidegauge.store.store import Clock, Measured, Published, Store

__all__ = ["Clock", "Measured", "Published", "Store"]
