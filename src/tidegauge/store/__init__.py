"""Ledger, journal and state in one file, one transaction a tick."""

from tidegauge.store.cipher import parse_key
from tidegauge.store.database import begun, refusal
from tidegauge.store.public.journal import Measured
from tidegauge.store.scratch import use_memory
from tidegauge.store.store import NOTHING_YET, Carried, Clock, Published, Store

__all__ = [
    "NOTHING_YET",
    "Carried",
    "Clock",
    "Measured",
    "Published",
    "Store",
    "begun",
    "parse_key",
    "refusal",
    "use_memory",
]
