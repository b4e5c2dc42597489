"""Copy docs/ to a folder from which the site is built.

The pages are written for people who read the repository: they link to source files, folders and pages outside
of docs/.  The copy has a page for each of these, so that every link works in the built site too.
"""

from __future__ import annotations

import ast
import posixpath
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CODE: Final = "code"
"""The folder of the site with what lies outside of docs/."""
LINK: Final = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
STAMP: Final = re.compile(r"^proves: (\S+)  stamp: [0-9a-f]{12}\n", re.MULTILINE)
SPAN: Final = re.compile(r"(`[^`]*`|\]\([^)]*\))")
"""What is not prose: code and the targets of links."""
BELOW: Final = re.compile(r"(?<![\w`])([A-Za-z]{1,6})_(\{[^}]*\}|\([^()]*\)|[a-z0-9]\b)")
ABOVE: Final = re.compile(r"\^(\{[^}]*\}|\([^()]*\)|-?\d+|[A-Za-z]+|[+])")
LIST: Final = re.compile(r"(?:[-*]|\d+\.) ")
LANGUAGES: Final = {
    ".py": "python", ".toml": "toml", ".yaml": "yaml", ".sql": "sql", ".service": "ini", ".js": "javascript",
}  # fmt: skip


@dataclass
class Stage:
    """What was copied so far, and what is still to be copied."""

    root: Path
    target: Path
    waiting: list[Path] = field(default_factory=list)
    done: set[Path] = field(default_factory=set)

    def place(self, path: Path) -> str:
        """The page of the site that shows this file or folder of the repository."""
        name = path.relative_to(self.root)
        if name.parts[:1] == ("docs",):
            inner = name.relative_to("docs")
            return (inner / "README.md" if path.is_dir() else inner).as_posix()
        if path.is_dir():
            return (CODE / name / "README.md").as_posix()
        return (CODE / name).as_posix() + ("" if path.suffix == ".md" else ".md")

    def link(self, page: Path, target: str) -> str:
        """The target of a link on this page, as it is written in the copy."""
        if "://" in target or target.startswith(("#", "mailto:")):
            return target
        path, mark, anchor = target.partition("#")
        found = (page.parent / path).resolve()
        if not found.is_relative_to(self.root / "docs"):
            self.waiting.append(found)
        return posixpath.relpath(self.place(found), posixpath.dirname(self.place(page))) + mark + anchor

    def text(self, page: Path) -> str:
        """A page with its links rewritten, its proofs named below the title, and its lists apart."""
        content = page.read_text("utf-8")
        proved = STAMP.findall(content)
        content = STAMP.sub("", content).lstrip("\n")
        lines: list[str] = []
        fenced = quoted = False
        for line in content.splitlines():
            fenced ^= line.lstrip().startswith("```")
            opens = quoted or not lines or not lines[-1].strip() or lines[-1].startswith("#")
            quoted = opens and (line.startswith("    ") or (quoted and not line.strip()))
            if fenced or quoted:
                lines.append(line)
                continue
            apart = lines and lines[-1].strip() and not lines[-1].startswith((" ", "|", "#"))
            if LIST.match(line) and apart and not LIST.match(lines[-1]) and not _in_list(lines):
                lines.append("")
            linked = LINK.sub(lambda found: self.link(page, found.group()), line)
            lines.append(_indices(linked) if page.parent.name == "theory" else linked)
        if proved:
            lines[1:1] = ["", *self._proves(page, proved)]
        return "\n".join(lines) + "\n"

    def _proves(self, page: Path, names: list[str]) -> list[str]:
        """The functions that a page proves, each with a link to its module."""
        found = []
        for name in names:
            module = self.root / "src" / Path(*name.split("."))
            while not module.with_suffix(".py").is_file():
                module = module.parent
            target = posixpath.relpath(module.with_suffix(".py").as_posix(), page.parent.as_posix())
            found.append(f"[`{name.removeprefix('tidegauge.')}`]({self.link(page, target)})")
        return ["*Proves " + ", ".join(found) + ".*"]

    def shown(self, path: Path) -> str:
        """The page for a file or a folder outside of docs/."""
        name = path.relative_to(self.root).as_posix()
        head = f"---\nsearch:\n  exclude: true\n---\n\n# {name.replace('_', chr(92) + '_')}\n\n"
        if path.is_dir():
            return head + self._listed(path)
        if path.suffix == ".md":
            return self.text(path)
        fence = "````"
        return f"{head}{fence}{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text('utf-8')}{fence}\n"

    def _listed(self, folder: Path) -> str:
        rows = []
        for path in sorted(folder.iterdir()):
            if path.name.startswith((".", "__pycache__")) or path.suffix in {".gz", ".png"}:
                continue
            about = ""
            if path.suffix == ".py":
                about = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]
            self.waiting.append(path)
            target = posixpath.relpath(self.place(path), posixpath.dirname(self.place(folder)))
            rows.append(f"| [`{path.name}`]({target}) | {about.replace('|', chr(92) + '|')} |")
        return "\n".join(["| file | contents |", "|---|---|", *rows]) + "\n"


def _indices(line: str) -> str:
    """A line of a proof with its indices below and its powers above the line."""

    def braced(found: re.Match[str], tag: str) -> str:
        return f"<{tag}>{found.groups()[-1].strip('{}()')}</{tag}>"

    parts = SPAN.split(line)
    for place in range(0, len(parts), 2):
        part = BELOW.sub(lambda found: found.group(1) + braced(found, "sub"), parts[place])
        parts[place] = ABOVE.sub(lambda found: braced(found, "sup"), part)
    return "".join(parts)


def _in_list(lines: list[str]) -> bool:
    """Whether the last paragraph belongs to a list: its first line is an item."""
    for line in reversed(lines):
        if LIST.match(line):
            return True
        if not line.strip():
            return False
    return False


def decisions(folder: Path) -> str:
    """A page that lists the decisions by their titles."""
    rows = ["# Decisions", "", "Why things are as they are, one page for each question.", ""]
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
        rows.append(f"- [{int(path.name[:4])}: {title}]({path.name})")
    return "\n".join(rows) + "\n"


def stage(root: Path, target: Path) -> None:
    """Copy every page of docs/, and everything that a page links to, into this folder."""
    root = root.resolve()
    now = Stage(root, target, [root / name for name in ("CONTRIBUTING.md", "CHANGELOG.md")])
    docs = root / "docs"
    target.mkdir(parents=True)
    for path in sorted(docs.rglob("*")):
        place = target / path.relative_to(docs)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        elif path.suffix == ".md":
            place.write_text(now.text(path), "utf-8")
        else:
            shutil.copyfile(path, place)
    (target / "decisions" / "README.md").write_text(decisions(docs / "decisions"), "utf-8")
    while now.waiting:
        path = now.waiting.pop()
        if path in now.done:
            continue
        now.done.add(path)
        place = target / now.place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(now.shown(path), "utf-8")
