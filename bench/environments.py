"""Other libraries as PyPI has them, each in an environment of its own, made once and kept under .bench.

What runs there is a file of bench/outside.  It imports the library and nothing of Tidegauge, reads one JSON
object from its input and prints one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
HOME: Final = ROOT / ".bench" / "environments"
OUTSIDE: Final = Path(__file__).parent / "outside"


class Absent(Exception):
    """A library that cannot be run here; the message says why."""


@dataclass(frozen=True)
class Library:
    """A library, the version that is compared, and the Pythons that it has wheels for."""

    name: str
    version: str
    pythons: tuple[str, ...] = ("3.11", "3.12", "3.13")
    more: tuple[str, ...] = ()
    """Further requirements."""

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


OPENDP: Final = Library("opendp", "0.16.0")
DPCRPY: Final = Library("dpcrpy", "1.0.0")
JAX_PRIVACY: Final = Library("jax-privacy", "2.0.0")
TUMULT: Final = Library("tmlt.analytics", "0.21.0", ("3.11", "3.12"))
MULTI_FREQ: Final = Library("multi-freq-ldpy", "0.2.5")


def interpreter(versions: tuple[str, ...]) -> str:
    """A Python of one of these versions: this one, one of the path, or one of pyenv."""
    own = "{}.{}".format(*sys.version_info)
    for version in sorted(versions, key=lambda one: one != own):
        found = [sys.executable] if version == own else [shutil.which(f"python{version}")]
        found += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
        for candidate in filter(None, found):
            asked = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False)
            if asked.returncode == 0 and asked.stdout.startswith(f"Python {version}."):
                return candidate
    raise Absent(f"It needs Python {' or '.join(versions)}, which is not installed here.")


def reason(output: str) -> str:
    """Why pip failed: its last error, without a path or an address."""
    errors = [line for line in output.splitlines() if "ERROR" in line or "error:" in line]
    text = errors[-1] if errors else "pip gave no reason"
    return re.sub(r"(https?://|/)\S+", "...", text.strip())


def environment(library: Library) -> Path:
    """The Python of an environment with this library.

    Raises Absent if it cannot be installed here.
    """
    home = HOME / f"{library.name}-{library.version}"
    python, done = home / "bin" / "python", home / "installed"
    if done.exists():
        return python
    shutil.rmtree(home, ignore_errors=True)
    base = interpreter(library.pythons)
    home.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([base, "-m", "venv", str(home)], check=True)
    words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    asked = subprocess.run(
        [*words, f"{library.name}=={library.version}", *library.more],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise Absent(f"pip could not install it: {reason(asked.stdout + asked.stderr)}")
    done.write_text("")
    return python


def ask(library: Library, script: str, question: dict[str, Any]) -> dict[str, Any]:
    """What a file of bench/outside answers.

    Raises Absent if the library cannot be installed, or if the file fails.
    """
    done = subprocess.run(
        [str(environment(library)), str(OUTSIDE / script)],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        last = re.sub(r"/\S+", "...", lines[-1] if lines else "no message")
        raise Absent(f"It was installed but failed: {last}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
