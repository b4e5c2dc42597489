"""A proof carries a stamp of the function that it proves, and is stale when the function's source changes.

Every page of docs/theory/ but README.md states one claim (or lemma) with one proof.  It opens with the
function that is the claim, and with the functions that its proof reads along with it:

    proves: tidegauge.theory.folds.dcr_folds  stamp: 0123456789ab
    with: tidegauge.theory.folds._layers  stamp: 0123456789ab

A lemma that no function computes opens with the pages that use it:

    used by: T10-changes.md, T10-pairs.md

After a change to such a function, read its proof again, correct it, and write the new stamps:

    python tests/theory/test_stamps.py
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import re
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidegauge.theory

if TYPE_CHECKING:
    from collections.abc import Iterator

PROOFS = Path(__file__).parents[2] / "docs" / "theory"
LINE = re.compile(r"^(?:proves|with): (tidegauge(?:\.\w+)+)  stamp: (\S+)$", re.MULTILINE)
THEOREM = re.compile(r"^proves: (\S+)  ", re.MULTILINE)
HEAD = re.compile(r"(?:proves: \S+  stamp: \S+\n|used by: [\w., -]+\n)(?:with: \S+  stamp: \S+\n)*\n# ")
USED = re.compile(r"^used by: (.+)$", re.MULTILINE)
CLAIM = re.compile(r"\*\*(?:Claim|Lemma|Theorem|Proposition)\b")
PROOF = re.compile(r"\*+Proof\b")
END = re.compile("\N{WHITE SQUARE}")
NAMED = re.compile(r"docs/theory/([\w-]+\.md)")
TITLE = re.compile(r"^# (T\d+|Rounding)\b.*$", re.MULTILINE)

MOST_LINES = 60
"""Of a page."""
ARITHMETIC = {"tidegauge.theory.accounting.precise"}
"""Modules of plain arithmetic, without a theorem; their docstrings say how they round."""


def stamp(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def resolved(dotted: str) -> Any:
    """The object of this dotted name, in the deepest module of that name."""
    parts = dotted.split(".")
    for depth in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:depth])
        if _is_module(module):
            return attrgetter(".".join(parts[depth:]))(importlib.import_module(module))
    raise AttributeError(dotted)


@cache
def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is a module, not a package
        return False


def stamp_of(dotted: str) -> str:
    found = resolved(dotted)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, cached_property):
        found = found.func
    return stamp(inspect.getsource(found))


def stale(text: str) -> list[str]:
    """The functions of a page whose source has another stamp than the page."""
    return [found[1] for found in LINE.finditer(text) if found[2] != stamp_of(found[1])]


def restamp(text: str) -> str:
    return LINE.sub(lambda found: found[0].replace(found[2], stamp_of(found[1])), text)


def proved(text: str) -> list[str]:
    return [found[1] for found in LINE.finditer(text)]


def public_functions() -> Iterator[str]:
    """The dotted name of every public function of every public module of the theory."""
    for found in pkgutil.walk_packages(tidegauge.theory.__path__, "tidegauge.theory."):
        if found.name.rpartition(".")[2].startswith("_") or found.name in ARITHMETIC:
            continue
        module = importlib.import_module(found.name)
        for name, value in inspect.getmembers(module, inspect.isfunction):
            if value.__module__ == found.name and not name.startswith("_"):
                yield f"{found.name}.{name}"


def pages() -> dict[str, str]:
    return {
        path.name: path.read_text(encoding="utf-8")
        for path in sorted(PROOFS.glob("*.md"))
        if path.name != "README.md"
    }


def index() -> str:
    return (PROOFS / "README.md").read_text(encoding="utf-8")


def test_no_proof_is_stale() -> None:
    assert {name: stale(text) for name, text in pages().items() if stale(text)} == {}


def test_every_page_opens_with_what_it_proves() -> None:
    assert [name for name, text in pages().items() if not HEAD.match(text)] == []


def test_a_lemma_without_a_function_is_used() -> None:
    texts = pages()
    for name, text in texts.items():
        used = USED.findall(text)
        assert len(used) + len(THEOREM.findall(text)) == 1, name
        for page in used[0].split(", ") if used else ():
            assert f"({name})" in texts[page], (name, page)


def test_every_public_function_names_pages_that_prove_it() -> None:
    texts, unproved = pages(), []
    for dotted in public_functions():
        named = NAMED.findall(resolved(dotted).__doc__ or "")
        if not named or any(dotted not in proved(texts.get(page, "")) for page in named):
            unproved.append(dotted)
    assert unproved == []


@pytest.mark.parametrize("name", pages())
def test_a_page_holds_one_theorem(name: str) -> None:
    text = pages()[name]
    assert len(text.splitlines()) <= MOST_LINES
    assert max(map(len, text.splitlines())) <= 110
    assert len(TITLE.findall(text)) == 1
    (claim,), (proof,), (end,) = (list(one.finditer(text)) for one in (CLAIM, PROOF, END))
    assert claim.start() < proof.start() < end.start()


def test_every_public_function_is_a_theorem_or_part_of_one() -> None:
    """A function that is part of the proof of another names that page, and is used by that function."""
    texts = pages()
    theorems = {found for text in texts.values() for found in THEOREM.findall(text)}
    for dotted in set(public_functions()) - theorems:
        named = NAMED.findall(resolved(dotted).__doc__ or "")
        assert named, dotted
        assert all(THEOREM.search(texts[page]) for page in named), dotted


def test_a_function_is_stamped_only_where_it_exists_and_once_per_page() -> None:
    for name, text in pages().items():
        assert len(set(proved(text))) == len(proved(text)), name


def test_the_index_lists_every_page_and_every_theorem() -> None:
    listed = index()
    assert [name for name in pages() if f"({name})" not in listed] == []
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", listed)) <= set(pages())
    exported = [
        name for name in tidegauge.theory.__all__ if inspect.isfunction(getattr(tidegauge.theory, name))
    ]
    assert [name for name in exported if f"`{name}`" not in listed] == []
    assert max(map(len, listed.splitlines())) <= 110


def test_the_theorems_are_found() -> None:
    found = set(public_functions())
    assert "tidegauge.theory.folds.dcr_folds" in found
    assert "tidegauge.theory.sensitivity.sensitivity" in found
    assert "tidegauge.theory.paths.toeplitz.toeplitz_paths" in found
    assert "tidegauge.theory.accounting.composition.compose" in found


def test_a_changed_function_makes_its_proof_stale() -> None:
    old = f"proves: tidegauge.theory.folds.dcr_folds  stamp: {stamp('def dcr_folds(): ...')}\n"
    assert stale(old) == ["tidegauge.theory.folds.dcr_folds"]
    assert stale(restamp(old)) == []


def test_a_page_with_two_claims_is_found() -> None:
    two = "**Claim (spread).** ...\n\n*Proof.* ...\n\n**Lemma.** ...\n\n*Proof.* ...\n"
    assert len(CLAIM.findall(two)) == len(PROOF.findall(two)) == 2


def test_a_function_that_does_not_exist_cannot_be_stamped() -> None:
    with pytest.raises(AttributeError):
        stamp_of("tidegauge.theory.folds.no_such_function")


if __name__ == "__main__":
    for path in sorted(PROOFS.glob("*.md")):
        path.write_text(restamp(path.read_text(encoding="utf-8")), encoding="utf-8")
