"""Record again what the golden tests compare with: python -m tests.golden.update [FILE[.NAME] ...]

Run it only after a change that is meant to change plans or readings, look at the difference that git shows,
and say in the commit why it is right.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.compare import FOLDER, differences, read, write
from tests.golden.record import RUNS, with_server
from tests.servers.postgres import Server, binaries


def main(asked: list[str]) -> None:
    """Make the named runs again, or all of them, and write down what they give."""
    server = Server(binaries()[0]) if binaries() else None
    try:
        runs = RUNS | (with_server(server) if server else {})
        known: dict[str, dict[str, Any]] = {}
        for file in dict.fromkeys(file for file, _ in runs):
            known[file] = read(file) if (FOLDER / f"{file}.json").exists() else {}
        for (file, name), make in runs.items():
            if asked and file not in asked and f"{file}.{name}" not in asked:
                continue
            with tempfile.TemporaryDirectory() as folder:
                found = make(Path(folder))
            changed = list(differences(known[file].get(name), found))
            if changed:
                known[file][name] = found
                print(f"{file}.{name}: {len(changed)} differences, the first {changed[0][:120]}")
    finally:
        if server is not None:
            server.stop()
    if server is None:
        print("No PostgreSQL here: what needs it stays as it was.")
    for file, runs_of_file in known.items():
        write(file, dict(sorted(runs_of_file.items())))


if __name__ == "__main__":
    main(sys.argv[1:])
