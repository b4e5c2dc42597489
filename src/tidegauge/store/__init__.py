"""Ledger, journal and state in one file, one transaction a tick."""

from tidegauge.store.store import NOTHING_YET, Clock, Measured, Published, Store

__all__ = ["NOTHING_YET", "Clock", "Measured", "Published", "Store"]
