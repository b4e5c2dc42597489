"""A proof is of one text of one function: it carries that text's stamp, and goes stale when the function changes.

docs/theory/T*.md open with one line for each function they prove:

    proves: tidegauge.theory.folds.dcr_folds  stamp: 0123456789ab

After changing a function, read its proof again, mend it, and stamp it anew:

    python tests/theory/test_stamps.py
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import pkgutil
import re
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import tidegauge.theory

if TYPE_CHECKING:
    from collections.abc import Iterator

PROOFS = Path(__file__).parents[2] / "docs" / "theory"
LINE = re.compile(r"^proves: (tidegauge\.\w+\.\w+)\.([\w.]+)  stamp: (\S+)$", re.MULTILINE)


def stamp(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def stamp_of(module: str, name: str) -> str:
    return stamp(inspect.getsource(attrgetter(name)(importlib.import_module(module))))


def stale(text: str) -> list[str]:
    """What a proof's text claims to prove under another stamp than the source has now."""
    return [
        f"{found[1]}.{found[2]}" for found in LINE.finditer(text) if found[3] != stamp_of(found[1], found[2])
    ]


def restamp(text: str) -> str:
    return LINE.sub(lambda found: found[0].replace(found[3], stamp_of(found[1], found[2])), text)


def public_functions() -> Iterator[tuple[str, str]]:
    """(module, name) of every theorem: each public function of each public module of the theory."""
    for found in pkgutil.iter_modules(tidegauge.theory.__path__, "tidegauge.theory."):
        if not found.name.rpartition(".")[2].startswith("_"):
            module = importlib.import_module(found.name)
            for name, value in inspect.getmembers(module, inspect.isfunction):
                if value.__module__ == found.name and not name.startswith("_"):
                    yield found.name, name


def proofs() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(PROOFS.glob("T*.md"))}


def test_no_proof_is_stale() -> None:
    assert {name: stale(text) for name, text in proofs().items() if stale(text)} == {}


def test_every_proof_opens_with_what_it_proves() -> None:
    assert [name for name, text in proofs().items() if not LINE.match(text)] == []


def test_every_theorem_names_proofs_that_prove_it() -> None:
    unproved = []
    for module, name in public_functions():
        named = re.findall(
            r"docs/theory/(T\d+\.md)", attrgetter(name)(importlib.import_module(module)).__doc__ or ""
        )
        texts = proofs()
        if not named or not all(
            f"proves: {module}.{name}  stamp:" in texts.get(proof, "") for proof in named
        ):
            unproved.append(f"{module}.{name}")
    assert unproved == []


def test_the_theorems_are_found() -> None:
    assert ("tidegauge.theory.folds", "dcr_folds") in set(public_functions())
    assert ("tidegauge.theory.sensitivity", "sensitivity") in set(public_functions())


def test_a_changed_function_makes_its_proof_stale() -> None:
    old = f"proves: tidegauge.theory.folds.dcr_folds  stamp: {stamp('def dcr_folds(): ...')}\n"
    assert stale(old) == ["tidegauge.theory.folds.dcr_folds"]
    assert stale(restamp(old)) == []


if __name__ == "__main__":
    for path in sorted(PROOFS.glob("T*.md")):
        path.write_text(restamp(path.read_text(encoding="utf-8")), encoding="utf-8")
