"""The beginning of a program that is killed in a commit."""

from __future__ import annotations

from typing import Final

IN_A_COMMIT: Final = """
import os, signal, sys
from pathlib import Path
from tidegauge.store.store import Store

commit, left = Store.commit, int(sys.argv[2])

def killed(self, result):
    global left
    left -= 1
    if left == 0:  # the state is written, and the ledger does not know it
        os.kill(os.getpid(), signal.SIGKILL)
    commit(self, result)

Store.commit = killed
"""
"""Its second argument is the number of the commit, 0 for none."""
