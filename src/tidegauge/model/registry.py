"""Plug-ins of one kind by name: a plug-in is known once it is registered, and a name is registered once.

This module imports nothing at run time, so that importing the package stays fast.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Generic, TypeVar

    T = TypeVar("T")
else:
    T, Generic = 0, [object]


class Registry(Generic[T]):
    """The registered plug-ins of one kind; iterating yields them in order of registration.

    one: what one of them is called, with its article.
    """

    def __init__(self, one: str) -> None:
        self.one = one
        self._known: dict[str, T | str] = {}

    def register(self, name: str, plug_in: T | str) -> None:
        """Make a plug-in known by its name.  Raises SpecError if the name is taken.

        `plug_in`: the plug-in itself, or the module in which it is the value KIND, loaded when first used.
        """
        if name in self._known:
            from tidegauge.errors import SpecError  # noqa: PLC0415  (see above)

            raise SpecError(f"{self.one} called {name!r} is registered already: give this one another name")
        self._known[name] = plug_in

    def unregister(self, name: str) -> None:
        """Undo `register`."""
        del self._known[name]

    def names(self) -> tuple[str, ...]:
        """The registered names, in order of registration."""
        return tuple(self._known)

    def find(self, name: str) -> T | None:
        """The plug-in with this name; None if there is none."""
        return self.named(name) if name in self._known else None

    def named(self, name: str) -> T:
        """The plug-in with this name.  Raises SpecError if there is none."""
        if name not in self._known:
            from tidegauge.errors import SpecError  # noqa: PLC0415  (see above)

            what = self.one.partition(" ")[2]
            raise SpecError(
                f"there is no {what} called {name!r}; there are: {', '.join(sorted(self._known))}"
            )
        known = self._known[name]
        if isinstance(known, str):
            from importlib import import_module  # noqa: PLC0415  (see above)

            loaded: T = import_module(known).KIND
            self._known[name] = loaded
            return loaded
        return known

    def __iter__(self) -> Iterator[T]:
        return (self.named(name) for name in self._known)
