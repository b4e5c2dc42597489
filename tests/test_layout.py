"""The rules of the layout, held by a test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tidegauge"
MODULES = sorted(SOURCE.rglob("*.py"))

_BELOW_RUN = {"errors", "model", "theory", "mechanism", "plan"}
ALLOWED = {
    "errors": set(),
    "model": {"errors"},
    "theory": {"errors", "model"},
    "mechanism": {"errors", "model", "theory"},
    "plan": _BELOW_RUN - {"plan"},
    "content": set(),
    "durable": set(),
    "scratch": {"errors"},
    "source": {"errors", "model", "scratch", "content", "durable"},
    "engine": {"errors", "model", "scratch", "durable"},
    "store": {"errors", "model", "content", "durable"},
    "publish": _BELOW_RUN | {"store", "durable"},
    "serve": _BELOW_RUN | {"store", "publish"},
    "simulate": _BELOW_RUN | {"engine"},
    "run": _BELOW_RUN | {"source", "engine", "store", "publish", "scratch", "simulate"},
    "receive": {"errors", "model", "source", "local"},
    "local": {"errors", "model", "durable"},
    "testing": {"errors", "model"},
}
"""Folder -> what it may import of Tidegauge besides itself; folders not named here may import everything."""

SECRET = ("source", "engine", "store.secret")
"""What is on the secret side of the line."""
PUBLIC = ("publish", "serve", "store.public")
"""What is on the public side, and reaches nothing secret, however many modules are in between."""

ONLY_IN = {
    "duckdb": {"engine/duckdb", "source"},
    "psycopg": {"source/postgres", "publish/postgres"},
    "pyspark": {"engine/spark"},
    "opendp": {"mechanism"},
}
"""Library -> the folders or modules that may import it."""


CLOSED = {"source": {"batch"}, "engine": set()}
"""Folder of plug-ins -> its folders that every plug-in may import; no plug-in imports another."""

READ_BY = {"snapshots": {"files", "sqlite", "postgres"}}
"""Kind of source -> other kinds that it imports: a snapshot is a file, or a table of a database."""

BESIDE = {("source/registry.py", "tidegauge.engine.spark.kind")}
"""A kind of source that is registered like every other, and lies beside its engine."""


def imports(path: Path) -> set[str]:
    """The modules that this one imports, or names in a text: a registry loads what it names.

    The whole package counts as its `__init__`, and a relative import as the module that it means.
    """
    names, place = set(), path.relative_to(SOURCE).as_posix()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {"tidegauge.__init__" if one.name == "tidegauge" else one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = ("tidegauge", *path.relative_to(SOURCE).parts)[: -node.level] if node.level else ()
            home = ".".join([*above, *([node.module] if node.module else [])])
            names |= {home, *(f"{home}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.replace(".", "/")
            if text.startswith("tidegauge/") and (SOURCE.parent / f"{text}.py").exists():
                names.add(node.value)
    return {name for name in names if (place, name) not in BESIDE}


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
            room, _, other = rest.partition(".")
            inner = path.relative_to(SOURCE).parts[1:-1]
            if room == own and own in CLOSED and inner and other:
                plug_in = other.split(".")[0]
                known = CLOSED[own] | {inner[0]} | READ_BY.get(inner[0], set())
                assert plug_in in known or not (SOURCE / own / plug_in).is_dir(), name
        if top in ONLY_IN:
            place = path.relative_to(SOURCE).with_suffix("")
            assert any(place.is_relative_to(home) for home in ONLY_IN[top]), name


def module(path: Path) -> str:
    """The name of a module inside of Tidegauge."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


GRAPH = {module(path): imports(path) for path in MODULES}


def inside(name: str, folders: tuple[str, ...]) -> bool:
    return any(name == folder or name.startswith(f"{folder}.") for folder in folders)


def reached(name: str, graph: dict[str, set[str]]) -> dict[str, str]:
    """Every module that one imports, directly or not, with the module that imports it."""
    found, left = {name: ""}, [name]
    while left:
        here = left.pop()
        for imported in graph.get(here, ()):
            top, _, rest = imported.partition(".")
            if top == "tidegauge" and rest and rest not in found:
                found[rest] = here
                left.append(rest)
    return found


@pytest.mark.parametrize("name", [name for name in GRAPH if inside(name, PUBLIC)])
def test_the_public_side_reaches_nothing_secret(name: str) -> None:
    """Through any number of modules; the receiving doors and the loop are on the secret side."""
    through = reached(name, GRAPH)
    assert not {one: through[one] for one in through if inside(one, SECRET) or inside(one, ("run",))}


def test_the_twin_that_must_fail() -> None:
    broken = GRAPH | {"model.tick": {"tidegauge.store.secret.sums"}}
    assert "store.secret.sums" in reached("publish.journal", broken)
    assert "store.secret.part" in reached("run.gauge", GRAPH)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_stay_small_and_are_named_after_something(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 400
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}


SIMULATION = {
    "audit/worlds/world.py",
    "mechanism/noise/samplers.py",
    "mechanism/noise/selection.py",
    "mechanism/search/path_samples.py",
    "demo/town.py",
    "cli/local.py",
    "source/postgres/access.py",
}
"""Where other randomness is at home: simulation that says so, the search for a strategy (which sees no data),
invented data, and how long to wait before a next try."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_noise_on_real_data_comes_from_opendp_alone(path: Path) -> None:
    name = path.relative_to(SOURCE).as_posix()
    text = path.read_text("utf-8")
    if name not in SIMULATION and not name.startswith("local/"):
        assert "default_rng" not in text
        assert "np.random" not in text
        assert "import random" not in text


def test_the_public_names_are_sorted() -> None:
    import tidegauge
    from tidegauge import theory

    for module in (tidegauge, theory):
        assert list(module.__all__) == sorted(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)
