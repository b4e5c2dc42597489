"""docs/cli.md is the help of every verb, word for word; run this file to update it."""

from __future__ import annotations

from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from tidegauge.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def page() -> str:
    runner = CliRunner(env={"COLUMNS": "100", "TERMINAL_WIDTH": "100"})
    verbs = sorted(get_command(app).commands)  # type: ignore[attr-defined]
    parts = ["# Verbs\n"]
    for words in ([], *([verb] for verb in verbs)):
        text = runner.invoke(app, [*words, "--help"], prog_name="tidegauge").output.rstrip()
        parts.append(f"## tidegauge {' '.join(words)}".rstrip() + f"\n\n```\n{text}\n```\n")
    return "\n".join(parts)


def test_every_verb_and_option_is_documented() -> None:
    assert PAGE.read_text("utf-8") == page()


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
