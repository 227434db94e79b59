"""The `fshipper search` command, and the address in `fshipper browse`, for the lines of a row of the report. Pure."""

import datetime as dt
import glob
import re
import shlex
import urllib.parse
from dataclasses import dataclass

from spark_analytics.report.number_format import clean

MAX_PHRASES = 3
"""Maximum phrases of a pattern that are searched, the longest ones."""

MIN_PHRASE = 3
"""Minimum characters of a phrase."""

MAX_NAME = 200
_MASKED = re.compile(r"<[^<> ]{0,40}>|[\"\\\x00-\x1f\x7f]+|\N{REPLACEMENT CHARACTER}")


@dataclass(frozen=True, slots=True)
class Search:
    """A search for lines of one day."""

    date: str
    query: str = ""
    host: str = ""
    file: str = ""

    def command(self) -> str:
        """The command, quoted for a shell."""
        since, until = self._window()
        words = ["fshipper", "search", "--since", since, "--until", until]
        if self.file:
            words += ["--file", _exact(self.file)]
        words += ["--", self.query, *([_exact(self.host)] if self.host else [])]
        return shlex.join(words)

    def address(self, base: str) -> str:
        """The view of `fshipper browse` at `base`."""
        since, until = self._window()
        pairs = [("q", self.query), ("host", _exact(self.host)), ("file", _exact(self.file))]
        given = [(name, text) for name, text in pairs if text]
        return f"{base.rstrip('/')}/#{urllib.parse.urlencode([*given, ('since', since), ('until', until)])}"

    def _window(self) -> tuple[str, str]:
        day = dt.date.fromisoformat(self.date)
        return f"{day}T00:00:00Z", f"{day + dt.timedelta(days=1)}T00:00:00Z"


def _exact(name: str) -> str:
    """A glob that matches `name` alone."""
    return glob.escape(clean(name, MAX_NAME))


def phrase(text: str) -> str:
    """`text` as a phrase of the query language."""
    return '"' + re.sub(r'(["\\])', r"\\\1", clean(text, MAX_NAME)) + '"'


def of_template(template: str) -> str:
    """The query for lines of a pattern: its longest texts between the masks, as phrases that must all occur."""
    parts = [part.strip() for part in _MASKED.split(clean(template))]
    longest = sorted((part for part in parts if len(part) >= MIN_PHRASE), key=len, reverse=True)[:MAX_PHRASES]
    return " ".join(f'"{part}"' for part in parts if part in longest)
