"""The table of situations in docs/reference/situations.md: what status and search show.

shows("the archive disk is full", output)   # asserts that the output has the sentence of that row

In a sentence `…` stands for any text, and a number for any number.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "situations.md"
_ROW = re.compile(r"\| (?P<name>[^|]+?) \| (?P<shown>.+?) \|[^|]* \|")


class Situation(NamedTuple):
    """One row."""

    name: str
    shown: str

    @property
    def pattern(self) -> re.Pattern[str]:
        text = re.escape(self.shown.replace("\\|", "|"))
        text = re.sub(r"\d[\d.,]*(\\ (B|KiB|MiB|GiB|TiB|s|min|h|d)\b)?", lambda found: _number(found[0]), text)
        return re.compile(text.replace("…", ".*?").replace(r"\ ", r"\s+"), re.DOTALL)


def _number(found: str) -> str:
    return r"[\d.,]+" + (r"\ \w+" if found[-1].isalpha() else "")


@cache
def situations() -> dict[str, Situation]:
    rows = [_ROW.fullmatch(line) for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    found = [Situation(row["name"], row["shown"].strip("`")) for row in rows if row is not None]
    return {each.name: each for each in found if each.name != "situation"}


def shows(name: str, output: str) -> None:
    """Assert that `output` has the sentence that the table names for this situation."""
    wanted = situations()[name]
    assert wanted.pattern.search(output), f"{name}: {wanted.shown!r} is not in\n{output}"
