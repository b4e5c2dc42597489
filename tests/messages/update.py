"""Write the list of refusals as the source has them: python -m tests.messages.update

Read the difference before you commit it: each text says what is wrong, where (file and key or line), and what
to do; it holds no data value; and it is plain English.
"""

from __future__ import annotations

from tests.messages.collect import EXPECTED, messages


def main() -> None:
    """Replace the lists."""
    EXPECTED.mkdir(exist_ok=True)
    found = messages()
    for path in EXPECTED.glob("*.txt"):
        if path.stem not in found:
            path.unlink()
    for folder, lines in found.items():
        (EXPECTED / f"{folder}.txt").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
