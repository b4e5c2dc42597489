"""What a doctor finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing a source needs; `fix` is the exact statement that brings it about, where it is missing and there is one."""

    name: str
    ok: bool
    detail: str
    fix: str | None = None

    def __post_init__(self) -> None:
        if self.ok:
            object.__setattr__(self, "fix", None)
