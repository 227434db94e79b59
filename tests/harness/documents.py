"""The commands of the documents: whole commands in fenced blocks, and the names of ours in the text.

A fenced block without a language, or one of `sh`, `bash`, `console`, holds commands (in `console` those after `$ `,
the rest is what they print). Other blocks have a language: `text`, `toml`, `ini`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
TYPED = {"", "sh", "bash"}
FENCE = re.compile(r"^```(\w*)$")
HERE_DOCUMENT = re.compile(r"<<-?\s*'?(\w+)'?")
ENDS_WITH = re.compile(r"#.*\bends with (\d+)")
INLINE = re.compile(r"`((?:sudo )?fshipper [^`]+)`")


def name(document: Path) -> str:
    """The path of a document in the checkout: `docs/guides/fleet.md`."""
    return document.relative_to(ROOT).as_posix()


class Command(NamedTuple):
    """One command as it stands in a document; it may have several lines."""

    line: int  #: of the document, from 1
    text: str

    @property
    def code(self) -> int:
        """Its comment: `# ... ends with 2`; else 0."""
        told = ENDS_WITH.search(self.text)
        return int(told[1]) if told else 0


class Block(NamedTuple):
    """One fenced block."""

    line: int  #: of its first line inside
    language: str
    lines: tuple[str, ...]


def blocks(text: str) -> Iterator[Block]:
    """Every fenced block of a document."""
    opened: tuple[int, str] | None = None
    inside: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line.strip())
        if fence and opened:
            yield Block(*opened, tuple(inside))
            opened = None
        elif fence:
            opened, inside = (number + 1, fence[1]), []
        elif opened:
            inside.append(line)


def commands(text: str) -> list[Command]:
    """Every command of a document, in its order."""
    return [command for block in blocks(text) for command in _typed(block)]


def _typed(block: Block) -> Iterator[Command]:
    numbered = list(enumerate(block.lines, block.line))
    if block.language == "console":
        numbered = [(number, line[2:]) for number, line in numbered if line.startswith("$ ")]
    elif block.language not in TYPED:
        return
    waiting: list[tuple[int, str]] = []
    until = ""
    for number, line in numbered:
        waiting.append((number, line))
        if until:
            until = "" if line == until else until
        elif started := HERE_DOCUMENT.search(line):
            until = started[1]
        if until or line.endswith("\\"):
            continue
        text = "\n".join(each for _, each in waiting)
        if text.strip() and not text.lstrip().startswith("#"):
            yield Command(waiting[0][0], text)
        waiting = []


def mentions(text: str) -> set[str]:
    """Every `fshipper ...` that the text names outside its blocks."""
    fenced = {n for block in blocks(text) for n in range(block.line - 1, block.line + len(block.lines) + 1)}
    prose = "\n".join(line for number, line in enumerate(text.splitlines(), 1) if number not in fenced)
    return set(INLINE.findall(prose))
