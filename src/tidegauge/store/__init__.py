"""Ledger, journal and state in one file, one transaction a tick."""

from tidegauge.store.cipher import parse_key
from tidegauge.store.database import begun, refusal
from tidegauge.store.store import Commitment, Store

__all__ = ["Commitment", "Store", "begun", "parse_key", "refusal"]
