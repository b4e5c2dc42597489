"""What a doctor finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@runtime_checkable
class Rehearsing(Protocol):
    """A source that can tell before the first read whether that read would be refused."""

    def rehearse(self) -> None:
        """Look at everything that the first read will look at, change nothing, and raise what it would raise."""
        ...


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


class Resumed(ABC):
    """A source that says whether a run can go on from where the store has come, and waits where it cannot yet."""

    def reach(self) -> None:  # noqa: B027  (most have nothing to wait for)
        """Wait until the source answers, as a read would; a refusal that waiting does not help is raised at once."""

    @abstractmethod
    def doctor(self, position: str | None = None) -> list[Check]:
        """Check what a run needs that goes on from the store's `position`, or begins where there is none."""
