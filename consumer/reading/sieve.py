"""Which lines are meant, by what is in them. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from consumer.reading.piece import Piece
from shipper.errors import UsageError


class Sieve(Protocol):
    """Takes some of the lines of a piece."""

    def take(self, piece: Piece) -> Iterator[Piece]:
        """Those of its lines that are meant, neighbours together."""
        ...


class All:
    """Takes every line."""

    def take(self, piece: Piece) -> Iterator[Piece]:
        """The piece as it is."""
        if piece.text:
            yield piece


@dataclass(frozen=True, slots=True)
class Matching:
    """Takes lines that hold a match of one of some expressions, or those that hold none."""

    expression: re.Pattern[str]
    matching: bool

    def take(self, piece: Piece) -> Iterator[Piece]:
        """Runs of lines; bytes that are no UTF-8 match as surrogates."""
        start = at = 0
        for line in piece.text.split(b"\n"):  # splitlines would part them at a lone CR, too
            end = min(at + len(line) + 1, len(piece.text))
            if at < end and (self.expression.search(_text(line)) is not None) is not self.matching:
                if start < at:
                    yield piece.part(start, at)
                start = end
            at = end
        if start < at:
            yield piece.part(start, at)


def sieve(patterns: list[str], *, flags: int, matching: bool) -> Sieve:
    """What takes the lines that match one of `patterns`. Raises UsageError: one is no regular expression."""
    if not patterns:
        return All()
    try:
        for each in patterns:
            re.compile(each, flags)
        return Matching(re.compile("|".join(f"(?:{each})" for each in patterns), flags), matching)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--grep: {error}", hint=r"write \ before a character that stands for itself, as in \( or \["
        ) from None


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "surrogateescape")
