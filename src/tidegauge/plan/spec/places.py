"""Tables of a tidegauge.toml that say where things are: the store, a shared ledger, the engine."""

from __future__ import annotations

from tidegauge.model.declared import Name, Secret, Table


class StoreSpec(Table):
    """How the store is kept; nothing that is promised depends on it."""

    key: Secret | None = None
    witness: Name | None = None


class LedgerSpec(Table):
    """The ledger that this gauge shares with others."""

    path: Name
    unit: Name | None = None
    """What the ledger calls the kind of unit that `source.unit` names; by default the same."""


class EngineSpec(Table):
    """Which engine computes the exact sums."""

    kind: Name = "duckdb"
