"""The table of situations, `situations.tsv`: what status and search show, and what the sentence leaves open.

shows("the archive disk is full", output)   # asserts that the output has the sentence of that row

In a sentence `…` stands for any text, and a number for any number.
"""

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).resolve().parents[1] / "situations.tsv"


class Situation(NamedTuple):
    """One row."""

    area: str
    name: str
    shown: str
    note: str  #: for docs/reference/situations.md; empty: the sentence is enough

    @property
    def pattern(self) -> re.Pattern[str]:
        text = re.escape(self.shown)
        text = re.sub(r"\d[\d.,]*(\\ (B|KiB|MiB|GiB|TiB|s|min|h|d)\b)?", lambda found: _number(found[0]), text)
        return re.compile(text.replace("…", ".*?").replace(r"\ ", r"\s+"), re.DOTALL)


def _number(found: str) -> str:
    return r"[\d.,]+" + (r"\ \w+" if found[-1].isalpha() else "")


@cache
def situations() -> dict[str, Situation]:
    _, *rows = TABLE.read_text(encoding="utf-8").splitlines()
    found = [Situation(*row.split("\t")) for row in rows]
    return {each.name: each for each in found}


def shows(name: str, output: str) -> None:
    """Assert that `output` has the sentence that the table names for this situation."""
    wanted = situations()[name]
    assert wanted.pattern.search(output), f"{name}: {wanted.shown!r} is not in\n{output}"
