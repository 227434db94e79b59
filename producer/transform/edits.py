"""What is done to the text of files, as a value, and a piece of a file edited that way.

First UTF-16 becomes UTF-8 (`charset`), then lines are left out (`keep_lines`, `drop_lines`), then what is left is
blacked out (`redact`).
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from producer.charset import Charset
from producer.host_zone import UTC_HOST, HostZones
from producer.model import Piece
from producer.transform.line_filter import Pattern, Range, joined, others
from producer.transform.regex_process import Apart, Matcher
from producer.transform.time_budget import DEFAULT_SECONDS, Budget
from shipper.edit_map import MAX_MAP_BYTES, Edit
from shipper.model import MAX_BLOCK_BYTES

# -- where to cut what is read: after whole lines, and after whole characters of an over-long one ----------------------

GROWN_BYTES = MAX_BLOCK_BYTES // 3 * 2 - 16
"""The most UTF-16 that fits into a block as UTF-8: two bytes may become three."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How to cut what is read into pieces."""

    block_bytes: int
    line_a_piece: bool  #: PLAIN encoding: one line a message
    lead_bytes: int = 0  #: of a line's first piece, what its later pieces carry along
    charset: str = ""  #: utf-16, utf-16-le, utf-16-be: what files may be written in
    seam: Callable[[bytes], int] | None = None  #: where an over-long line is best cut
    budget: Budget | None = None  #: of the patterns that pieces are edited by; None: by none

    def read_bytes(self, charset: Charset) -> int:
        """Maximum bytes of one read."""
        return self.block_bytes if charset is Charset.BYTES else min(self.block_bytes, GROWN_BYTES)

    def taken(self, data: bytes, *, flush: bool, charset: Charset = Charset.BYTES, at: int = 0) -> int:
        """How many bytes of `data` make the next piece; 0: wait for more. `flush`: an unterminated last line too.

        `at`: offset of `data` in its file.
        """
        behind = charset.first_end(data, 0, at=at) if self.line_a_piece else charset.last_end(data, at=at)
        if behind:
            return behind
        if len(data) >= self.read_bytes(charset):
            return self._seam(data, charset, at)  # an over-long line is split over pieces, never cut short or dropped
        return len(data) if flush else 0

    def first_piece(self, line: bytes, charset: Charset) -> bytes:
        """The piece that a long line began with, as it was cut before a restart."""
        most = self.read_bytes(charset)
        return line if len(line) < most else line[: self._seam(line[:most], charset, 0)]

    def _seam(self, data: bytes, charset: Charset, at: int) -> int:
        behind = self.seam(data) if self.seam and charset is Charset.BYTES else len(data)
        return charset.whole(data[:behind], at=at)


Find = Callable[[bytes], Iterable[Range]]

# -- what is blacked out: card numbers, tokens, mail addresses, and what a user's patterns match -----------------------

_DIGITS = re.compile(rb"[0-9]+")
_RUN = re.compile(rb"[0-9]{3}[0-9 +-]{10,}")
_CARD_DIGITS = range(13, 20)
_USUAL = frozenset({(4, 4, 4, 4), (4, 4, 4, 4, 3), (4, 6, 5), (4, 6, 4), *((size,) for size in _CARD_DIGITS)})
"""Digits in each group of a card number, as they are printed."""
_GROUP_DIGITS = 3
"""Else the least in a group but the last, so that a date and a time are none."""
_MOST_GROUPS = 7

_AT = re.compile(rb"(?:@|%40)(?:[A-Za-z0-9\x80-\xff][A-Za-z0-9\x80-\xff-]*\.)+[A-Za-z\x80-\xff][A-Za-z0-9\x80-\xff-]*")
_LOCAL = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%+-" + bytes(range(0x80, 0x100))
_LOCAL_BYTES = 128
"""Of the part before the @: the standard allows 64, some may be percent-encoded."""

_VALUE = (
    rb"""(?:\\"([^"\\\n]+)"""  # quoted within a quoted text
    rb"""|"((?:[^"\\\n]++|\\[^\n])++)"""
    rb"""|'([^'\n]+)"""
    rb"""|([^\s&;,"'\\]+))"""
)
_NAMES = (
    *(b"password", b"passwd", b"passphrase", b"pwd", b"secret", b"token"),
    *(b"api", b"access", b"private", b"author", b"bearer"),
)
_IS = rb"[ \t]*(?:[=:]{1,2}>?|%3[ad])[ \t]*"
"""Between a name and its value: `=`, `:`, `:=`, `=>` as Ruby and PHP write, percent-encoded ones."""
_NAMED = re.compile(
    rb"(?:password|passwd|passphrase|pwd|secret(?:key)?|token|api[_-]?key|access[_-]?key|private[_-]?key)"
    rb"(?:[_-][a-z0-9_-]{0,24})?\\?[\"']?" + _IS + _VALUE +
    rb"|(?<=--)(?:password|passwd|passphrase|secret|token)[ \t]+\\?[\"']?([^\s\"'\\-][^\s\"'\\]*)"
    rb"|authorization\\?[\"']?" + _IS + rb"\\?[\"']?(?:[a-z0-9-]+[ \t]+)?([^\s,\"'\\]+)"
    rb"|\bbearer[ \t]+([a-z0-9._~+/=-]+)"
)  # fmt: skip
"""On lower-case bytes: the value is the one group that matched. A value whose quote is not closed goes to the end."""
_ELEMENTS = frozenset({b"password", b"passwd", b"passphrase", b"secret", b"token"})
_ELEMENT = re.compile(rb"(?:password|passwd|passphrase|secret|token)>")
"""Begins an element of XML, whose text is a secret where `</` follows it."""
_TEXT_END = re.compile(rb"[<\n]|\Z")
_SHAPED = re.compile(
    rb"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){1,3}"
    rb"|A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    rb"|gh[opsur]_[A-Za-z0-9]{36,}"
    rb"|://[^/\s:@\"']*:([^/\s@\"']+)@"
)
"""JSON web tokens, AWS access keys, tokens of GitHub, the password in a URL: known by their form."""
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")


class Redaction(NamedTuple):
    """What is blacked out, and what stands for it."""

    find: Find
    name: bytes  #: `[card]`


def cards(data: bytes) -> Iterator[Range]:
    """Card numbers: 13 to 19 digits, perhaps in groups with a space, dash or plus (of a URL) between, Luhn sum right.

    None begins with 0 or 1, so that times in milliseconds survive.
    """
    for run in _RUN.finditer(data):
        if len(run[0].translate(None, b" +-")) >= _CARD_DIGITS.start:
            yield from _cards_of(data, [group.span() for group in _DIGITS.finditer(data, *run.span())])


def _cards_of(data: bytes, groups: list[Range]) -> Iterator[Range]:
    """The card numbers among groups of digits.

    Where an adjacent number makes two readings in the usual groups, both go; any other grouping is for what is left.
    """
    used: set[int] = set()
    for is_card, may_overlap in ((_USUAL.__contains__, True), (_is_grouped, False)):
        for first in range(len(groups)):
            last = _card_end(data, groups, first, is_card)
            if last > first and (may_overlap or used.isdisjoint(range(first, last))):
                used.update(range(first, last))
                yield groups[first][0], groups[last - 1][1]


def _is_grouped(sizes: tuple[int, ...]) -> bool:
    return min(sizes[:-1], default=_GROUP_DIGITS) >= _GROUP_DIGITS


def _card_end(data: bytes, groups: list[Range], first: int, is_card: Callable[[tuple[int, ...]], bool]) -> int:
    """The group after the card number that begins with group `first`; `first`: none does."""
    digits, expected = b"", groups[first][0]
    sizes: tuple[int, ...] = ()
    for number in range(first, min(len(groups), first + _MOST_GROUPS)):
        begin, end = groups[number]
        if begin != expected or len(digits) >= _CARD_DIGITS.stop:  # `expected`: after one space, dash or plus
            break
        digits, sizes, expected = digits + data[begin:end], (*sizes, end - begin), end + 1
        if len(digits) in _CARD_DIGITS and digits[:1] not in b"01" and is_card(sizes) and _luhn(digits):
            return first if _is_fraction(data, groups[first][0]) else number + 1
    return first


def _is_fraction(data: bytes, begin: int) -> bool:
    return data[begin - 1 : begin] == b"." and data[max(0, begin - 2) : begin - 1].isdigit()


def _luhn(digits: bytes) -> bool:
    plain, doubled = digits[-1::-2], digits[-2::-2].translate(_DOUBLED)
    return (sum(plain) + sum(doubled) - ord("0") * len(digits)) % 10 == 0


def mails(data: bytes) -> Iterator[Range]:
    """Mail addresses, also percent-encoded ones as in a URL."""
    for found in _AT.finditer(data):
        before = data[max(0, found.start() - _LOCAL_BYTES) : found.start()]
        local = len(before) - len(before.rstrip(_LOCAL))
        if local:
            yield found.start() - local, found.end()


def tokens(data: bytes) -> Iterator[Range]:
    """Values of passwords, keys and tokens by the name before them; or known by their form."""
    lower = data.lower()
    for name in _NAMES:  # finding words is many times faster than an expression that has to try every byte
        at, text_end = lower.find(name), -1
        while at >= 0:
            behind = at + len(name)
            if found := _NAMED.match(lower, at):
                behind = found.end()
                yield found.span(found.lastindex or 0)
            elif name in _ELEMENTS and (found := _ELEMENT.match(lower, at)):
                begin = found.end()
                if text_end < begin and (stop := _TEXT_END.search(lower, begin)):
                    text_end = stop.start()  # of every element that begins before: no text is searched twice
                if begin < text_end and lower.startswith(b"</", text_end):
                    behind = text_end + len(b"</")
                    yield begin, text_end
            at = lower.find(name, behind)  # no value is read twice
    for found in _SHAPED.finditer(data):
        yield found.span(found.lastindex or 0)


READY: dict[str, Find] = {"card": cards, "token": tokens, "email": mails}


# -- the edits ---------------------------------------------------------------------------------------------------------

SEAM_BYTES = 4096
"""Maximum bytes before the end of an over-long line's piece in which a place to cut is searched."""
CLEAR_BYTES = 512
"""How many bytes of the line after that place are checked."""
NAME_BYTES = 64
"""How far before a secret the name may begin by which it is known."""
_SEPARATOR = re.compile(rb"[ \t,;&|]+")


class Text(NamedTuple):
    """The edited text of a piece, and how it came out of the bytes of the file."""

    content: bytes
    edits: list[Edit]


class Change(NamedTuple):
    """Bytes `begin` to `end` of a text are replaced."""

    begin: int
    end: int
    by: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """The changes to the text of every file, and what the archive records of them. None, by default."""

    keep: tuple[Pattern | Apart, ...] = ()
    drop: tuple[Pattern | Apart, ...] = ()
    redact: tuple[Redaction, ...] = ()
    charset: str = ""  #: utf-16 (where a file begins with a byte order mark), utf-16-le, utf-16-be
    labels: tuple[tuple[str, str], ...] = ()
    zones: HostZones = UTC_HOST
    most_bytes: int = MAX_BLOCK_BYTES  #: how far a piece's text may grow; at least 1.5 times what is read of UTF-16
    budget: Budget = field(default_factory=Budget, compare=False)
    matcher: Matcher | None = field(default=None, compare=False)  #: runs the patterns that may take for ever

    @classmethod
    def of(
        cls,
        *,
        keep_lines: Collection[str] = (),
        drop_lines: Collection[str] = (),
        redact: Collection[str] = (),
        charset: str = "",
        labels: Mapping[str, str] | None = None,
        zones: HostZones = UTC_HOST,
        most_bytes: int = MAX_BLOCK_BYTES,
        pattern_seconds: float = DEFAULT_SECONDS,
    ) -> "Edits":
        """The edits that settings name. Raises re.error: the settings have not been validated."""
        budget = Budget(pattern_seconds)
        lines = {text: Pattern.of(text) for text in (*keep_lines, *drop_lines)}
        secrets = {text: Pattern.of(text, may_be_empty=False) for text in redact if text not in READY}
        named = (*lines.items(), *secrets.items())
        apart = tuple(dict.fromkeys(text for text, pattern in named if pattern.needs_own_process))
        matcher = Matcher(apart, budget) if apart else None

        def matching(text: str, pattern: Pattern) -> Pattern | Apart:
            return Apart(matcher, apart.index(text)) if matcher and pattern.needs_own_process else pattern

        def redaction(text: str) -> Redaction:
            if text in READY:
                return Redaction(READY[text], b"[%s]" % text.encode())
            return Redaction(matching(text, secrets[text]).matches, b"[redacted]")

        return cls(
            keep=tuple(matching(text, lines[text]) for text in keep_lines),
            drop=tuple(matching(text, lines[text]) for text in drop_lines),
            redact=tuple(map(redaction, redact)),
            charset=charset,
            labels=tuple((labels or {}).items()),
            zones=zones,
            most_bytes=most_bytes,
            budget=budget,
            matcher=matcher,
        )

    def close(self) -> None:
        """End what runs for the patterns."""
        if self.matcher:
            self.matcher.close()

    @property
    def change_text(self) -> bool:
        """Whether any byte may change on its way."""
        return bool(self.keep or self.drop or self.redact or self.charset)

    @property
    def map_bytes(self) -> int:
        """The longest map that is sent after a piece's text."""
        return min(MAX_MAP_BYTES, self.most_bytes // 2)

    @property
    def message_bytes(self) -> int:
        """The most bytes of a message's payload."""
        return self.most_bytes + self.map_bytes

    def cut(self, block_bytes: int, *, line_a_piece: bool) -> Cut:
        """How files are cut so that their pieces can be edited one by one."""
        return Cut(
            block_bytes,
            line_a_piece=line_a_piece,
            lead_bytes=block_bytes if self.keep or self.drop else 0,
            charset=self.charset,
            seam=self.seam if self.redact else None,
            budget=self.budget if self.keep or self.drop or self.redact else None,
        )

    def of_piece(self, piece: Piece) -> Text | None:
        """The edited text of `piece`; None: it goes as it is. Raises OverBudget: its patterns take too long."""
        if not piece.data:
            return None
        self.budget.begin()
        if piece.charset is not Charset.BYTES:
            return self._converted(piece)
        changes = self._changes(piece.data, piece.lead)
        return _replaced(piece.data, self._fitting(changes, len(piece.data))) if changes else None

    def seam(self, data: bytes) -> int:
        """Where to cut an over-long line: in nothing to redact that is shorter than `CLEAR_BYTES`, if it can be.

        It is after a separator, so far before the end of `data` that what begins before the cut ends in sight.
        Raises OverBudget.
        """
        reach, clear = min(SEAM_BYTES, len(data) // 2), min(CLEAR_BYTES, len(data) // 4)
        around = data[-2 * reach :]
        self.budget.begin()
        secrets = joined(sorted(self.budget.checked(span for rule in self.redact for span in rule.find(around))))
        ends = [found.end() for found in _SEPARATOR.finditer(around, reach, len(around) - clear)]
        for end in (*reversed(ends), len(around) - clear):
            if not any(begin - NAME_BYTES < end < stop for begin, stop in secrets):
                return len(data) - len(around) + end
        return len(data)

    # -- what changes in a text ---------------------------------------------------------------------------------

    def _changes(self, data: bytes, lead: bytes) -> list[Change]:
        """In order, apart from each other. `lead`: the first piece of the line in whose middle `data` begins."""
        out = self._left_out(data, lead) if self.keep or self.drop else []
        changes = [Change(begin, end, b"") for begin, end in out]
        if self.redact and out != [(0, len(data))]:
            changes += self._redactions(data, out)
            changes.sort()
        return changes

    def _left_out(self, data: bytes, lead: bytes) -> list[Range]:
        """The runs of lines that are left out: `drop` wins over `keep`."""
        dropped = set(self.budget.checked(span for pattern in self.drop for span in pattern.lines(data)))
        kept = set(self.budget.checked(span for pattern in self.keep for span in pattern.lines(data))) - dropped
        if lead:
            first = (0, data.find(b"\n") + 1 or len(data))
            dropped.discard(first)
            kept.discard(first)
            (kept if self._is_kept(lead) else dropped).add(first)
        return others(joined(sorted(kept)), len(data)) if self.keep else joined(sorted(dropped))

    def _is_kept(self, line: bytes) -> bool:
        matches = [any(pattern.matches_line(line, 0, len(line)) for pattern in rule) for rule in (self.keep, self.drop)]
        return (matches[0] or not self.keep) and not matches[1]

    def _redactions(self, data: bytes, out: list[Range]) -> list[Change]:
        found = sorted(
            self.budget.checked((begin, -end, rule.name) for rule in self.redact for begin, end in rule.find(data))
        )
        changes: list[Change] = []
        for begin, minus_end, name in found:
            if changes and begin < changes[-1].end:  # one secret in another: the longer of both goes
                changes[-1] = changes[-1]._replace(end=max(changes[-1].end, -minus_end))
            elif not _within(begin, out):
                changes.append(Change(begin, -minus_end, name))
        return changes

    def _fitting(self, changes: list[Change], length: int) -> list[Change]:
        """Where the text would grow beyond what a block holds, stars, no longer than what they stand for."""
        grown = length + sum(len(by) - (end - begin) for begin, end, by in changes)
        if grown <= self.most_bytes:
            return changes
        return [Change(begin, end, b"*" * min(end - begin, len(by))) for begin, end, by in changes]

    # -- UTF-16 -------------------------------------------------------------------------------------------------

    def _converted(self, piece: Piece) -> Text:
        """Each line is one edit; the other edits see the UTF-8 text."""
        charset, data, at = piece.charset, piece.data, piece.span.start
        lines: list[bytes] = []
        lengths: list[int] = []
        begin = 0
        while begin < len(data):
            end = charset.first_end(data, begin, at=at) or len(data)
            lines.append(charset.text(data[begin:end], at=at + begin))
            lengths.append(end - begin)
            begin = end
        text = b"".join(lines)
        changes = self._changes(text, charset.text(piece.lead, at=0))
        return _folded(lines, lengths, self._fitting(changes, len(text)))


def _folded(lines: list[bytes], lengths: list[int], changes: list[Change]) -> Text:
    """The lines with their changes: one edit a line, `lengths` bytes in the file, and one a run of left-out lines."""
    content: list[bytes] = []
    edits: list[Edit] = []
    begin = number = 0
    for line, length in zip(lines, lengths, strict=True):
        end, own = begin + len(line), []
        while number < len(changes) and changes[number].begin < end:
            own.append(Change(changes[number].begin - begin, changes[number].end - begin, changes[number].by))
            if changes[number].end > end:
                break  # a run of lines that are left out goes on
            number += 1
        given = _replaced(line, own).content if all(change.by for change in own) else b""
        if not given and edits and not edits[-1].given:
            edits[-1] = Edit(0, edits[-1].taken + length, 0)
        else:
            edits.append(Edit(0, length, len(given)))
        content.append(given)
        begin = end
    return Text(b"".join(content), edits)


def _replaced(data: bytes, changes: list[Change]) -> Text:
    content: list[bytes] = []
    edits: list[Edit] = []
    place = 0
    for begin, end, by in changes:
        content += (data[place:begin], by)
        edits.append(Edit(begin - place, end - begin, len(by)))
        place = end
    content.append(data[place:])
    return Text(b"".join(content), edits)


def _within(place: int, ranges: list[Range]) -> bool:
    at = bisect_right(ranges, (place, MAX_BLOCK_BYTES * 2)) - 1
    return at >= 0 and place < ranges[at][1]


NO_EDITS = Edits()
