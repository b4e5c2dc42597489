"""The rules of the layout, held by a test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tidegauge"
MODULES = sorted(SOURCE.rglob("*.py"))

ALLOWED = {
    "errors": set(),
    "model": {"errors"},
    "theory": {"errors", "model"},
    "mechanism": {"errors", "model", "theory"},
    "plan": {"errors", "model", "theory", "mechanism"},
    "scratch": set(),
    "source": {"errors", "model", "scratch"},
    "engine": {"errors", "model", "scratch"},
    "store": {"errors", "model", "scratch"},
    "local": {"errors"},
    "testing": {"errors", "model"},
}
"""Folder -> what it may import of Tidegauge besides itself; folders not named here may import everything."""

ONLY_IN = {
    "duckdb": {"engine", "source"},
    "psycopg": {"source"},
    "pyspark": {"engine"},
    "opendp": {"mechanism"},
}


def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def folder(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    own, found = folder(path), imports(path)
    for name in found:
        top, _, rest = name.partition(".")
        if top == "tidegauge" and rest and own in ALLOWED:
            assert rest.split(".")[0] in ALLOWED[own] | {own}, name
        if top in ONLY_IN:
            assert own in ONLY_IN[top], name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_stay_small_and_are_named_after_something(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 400
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}


SIMULATION = {
    "mechanism/noise/samplers.py",
    "mechanism/search/path_samples.py",
    "demo/hospital.py",
    "cli/local.py",
    "source/postgres/access.py",
}
"""Where other randomness is at home: simulation that says so, the search for a strategy (which sees no data), invented
data, and how long to wait before a next try."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_noise_on_real_data_comes_from_opendp_alone(path: Path) -> None:
    name = path.relative_to(SOURCE).as_posix()
    text = path.read_text("utf-8")
    if name not in SIMULATION and not name.startswith("local/"):
        assert "default_rng" not in text
        assert "import random" not in text


def test_the_public_names_are_sorted() -> None:
    import tidegauge
    from tidegauge import theory

    for module in (tidegauge, theory):
        assert list(module.__all__) == sorted(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)
