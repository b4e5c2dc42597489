"""Seeding a bug: one text takes the place of another in the code of a function, until the context ends."""

from __future__ import annotations
import __future__

import ast
import functools
import gc
import importlib
import inspect
import os
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ALLOWED: Final = "TIDEGAUGE_AUDIT_CONTROLS"
"""The variable that the process of the controls has; elsewhere nothing is seeded."""


@dataclass(frozen=True)
class Edit:
    """In this function (module:name), `old` becomes `new`; `old` is there exactly once."""

    function: str
    old: str
    new: str


@dataclass(frozen=True)
class Bug:
    """A bug, and the checks that must find it."""

    name: str
    edits: tuple[Edit, ...]
    caught_by: tuple[str, ...]


class NotSeeded(Exception):
    """The code that the bug would change is not there."""


@contextmanager
def seeded(bug: Bug) -> Iterator[None]:
    """The process with this bug; afterwards it is as it was."""
    if os.environ.get(ALLOWED) != str(os.getpid()):
        raise NotSeeded("bugs are seeded in the process of the controls alone")
    changed = [(function_of(edit.function), _edited(edit)) for edit in bug.edits]
    before = [(function, function.__code__) for function, _ in changed]
    _forget()
    try:
        for function, code in changed:
            function.__code__ = code
        yield
    finally:
        for function, code in before:
            function.__code__ = code
        _forget()


def function_of(name: str) -> FunctionType:
    """The function itself, below decorators."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = inspect.getattr_static(found, part)
    except (ImportError, AttributeError):
        raise NotSeeded(f"{name} is not there") from None
    while not isinstance(found, FunctionType):
        inner = getattr(found, "__wrapped__", None) or getattr(found, "__func__", None)
        found = inner or getattr(found, "fget", None) or getattr(found, "func", None)
        if found is None:
            raise NotSeeded(f"{name} is no function")
    return found


def _edited(edit: Edit) -> Any:
    """The function's code with the text replaced."""
    function = function_of(edit.function)
    source = textwrap.dedent(inspect.getsource(function))
    if source.count(edit.old) != 1:
        raise NotSeeded(f"{edit.function} has changed")
    tree = ast.parse(source.replace(edit.old, edit.new))
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    flags = __future__.annotations.compiler_flag
    names: dict[str, Any] = {}
    compiled = compile(tree, "<seeded bug>", "exec", flags, dont_inherit=True)
    exec(compiled, dict(function.__globals__), names)  # noqa: S102  (the text is in this package)
    code = names[definition.name].__code__
    if code.co_freevars != function.__code__.co_freevars:
        raise NotSeeded(f"{edit.function} is a closure")
    return code


def _forget() -> None:
    """Empty every cache of Tidegauge: results from before and after are not mixed."""
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper) and str(one.__module__).startswith("tidegauge"):
            one.cache_clear()
