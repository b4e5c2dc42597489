"""Every Python block of the local documentation runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegauge.local.survey import PROTOCOLS

DOCS = Path(__file__).parents[2] / "docs" / "local"


@pytest.mark.parametrize("name", ["guide.md", "memoized.md"])
def test_the_blocks_run_one_after_the_other(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), flags=re.DOTALL)
    assert len(blocks) > 1
    shared: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, name, "exec"), shared)


def test_every_protocol_is_documented() -> None:
    text = (DOCS / "guide.md").read_text()
    assert all(f"`{name}`" in text for name in PROTOCOLS)
