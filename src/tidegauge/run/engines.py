"""The engine of a gauge, which is opened again when releases are added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tidegauge.engine.registry import open_engine

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tidegauge.model.engine import Engine
    from tidegauge.model.program import Program


class Engines:
    """One engine at a time, for one program after the other over the same columns."""

    def __init__(
        self,
        kind: str,
        columns: Mapping[str, str],
        *,
        store: Path | None = None,
        secret: bytes | None = None,
    ) -> None:
        self._kind, self._columns, self._store, self._secret = kind, columns, store, secret
        self._engine: Engine | None = None

    def open(self, program: Program) -> Engine:
        """The engine for this program; the one before is closed."""
        self.close()
        self._engine = open_engine(self._kind, program, self._columns, store=self._store, secret=self._secret)
        return self._engine

    def close(self) -> None:
        """Free what the engine holds."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
