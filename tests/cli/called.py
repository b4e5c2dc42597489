"""Calling a verb in this process, as the command line does."""

from __future__ import annotations

import sys
from typing import NamedTuple

import pytest

from tidegauge.cli.carry_out import main


class Called(NamedTuple):
    """What a verb ended with and printed."""

    code: int
    out: str
    err: str


def called(capsys: pytest.CaptureFixture[str], *words: str) -> Called:
    """Call a verb; its exit code, and what it printed on both streams."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["tidegauge", *words])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Called(code, *capsys.readouterr())


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Call a verb; its exit code, and everything that it printed."""
    found = called(capsys, *words)
    return found.code, found.out + found.err
