"""What is done to the text of files, as a value, and a piece of a file edited that way.

First UTF-16 becomes UTF-8 (`charset`), then lines are left out (`keep_lines`, `drop_lines`), then what is left is
blacked out (`redact`).
"""

import enum
import hmac
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from producer.charset import DETECTED, Charset, is_wide_text
from producer.host_zone import UTC_HOST, HostZones
from producer.model import Piece
from producer.redaction.detectors import KINDS, after_lead, detector, of_pattern
from producer.redaction.named_values import Hit
from producer.redaction.private_keys import KeyState, leaves_open, private_keys
from producer.transform.line_filter import Range, joined, lines_with, others
from shipper.bytes_ops import count_lines
from shipper.edit_map import MAX_MAP_BYTES, Edit
from shipper.linear_regex import Linear
from shipper.model import MAX_BLOCK_BYTES

# -- where to cut what is read: after whole lines, and after whole characters of an over-long one ----------------------

GROWN_BYTES = MAX_BLOCK_BYTES // 3 * 2 - 16
"""The most UTF-16 that fits into a block as UTF-8: two bytes may become three."""


class Flush(enum.Enum):
    """What happens to a last line without its newline."""

    NEVER = "never"  #: it waits for the newline
    CHARACTERS = "characters"  #: it was silent for long: its whole characters are shipped, and the rest may come
    ALL = "all"  #: no more of it is expected

    @property
    def next(self) -> "Flush":
        """After a piece of it was read: half a character may be left, and its other half may come."""
        return Flush.NEVER if self is Flush.CHARACTERS else self


LINES = 512
"""Maximum lines of a piece in line mode: as many messages are encoded and sent together."""
LINES_BYTES = 64 * 1024
"""The same in bytes, where a line is not longer."""
MIN_RECORD_BYTES = 2
"""Bytes between two NULs that end records."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How to cut what is read into pieces."""

    block_bytes: int
    lines_a_piece: int  #: PLAIN encoding: maximum lines of a piece, each a message; 0: a piece is one message
    context_bytes: int = 0  #: before a piece that begins in the middle of a line, which redaction needs
    lead_bytes: int = 0  #: of a line's first piece, what its later pieces carry along
    charset: str = ""  #: utf-16, utf-16-le, utf-16-be: what files may be written in
    seam: Callable[[bytes], int] | None = None  #: where an over-long line is best cut

    def read_bytes(self, charset: Charset) -> int:
        """Maximum bytes of one read."""
        return self.block_bytes if charset is Charset.BYTES else min(self.block_bytes, GROWN_BYTES)

    def taken(self, data: bytes, *, flush: Flush, charset: Charset = Charset.BYTES, at: int = 0) -> int:
        """How many bytes of `data` make the next piece; 0: wait for more. `flush`: what of an unterminated last line.

        `at`: offset of `data` in its file.
        """
        behind = self.first_lines(data, 0, charset, at) if self.lines_a_piece else charset.last_end(data, at=at)
        if behind:
            return behind
        if len(data) >= self.read_bytes(charset):
            return self._seam(data, charset, at)  # an over-long line is split over pieces, never cut short or dropped
        if flush is Flush.ALL:
            return len(data)
        if flush is Flush.CHARACTERS:
            return charset.whole(data, at=at)
        return 0 if self.edits_lines or charset is not Charset.BYTES else _record_end(data)

    def first_lines(self, data: bytes, begin: int, charset: Charset, at: int) -> int:
        """Where the lines from `begin` on end that make the next piece in line mode. 0: there is no whole line."""
        if self.lines_a_piece == 1:
            return charset.first_end(data, begin, at=at)
        end = data.rfind(b"\n", begin, begin + LINES_BYTES) + 1 or data.find(b"\n", begin) + 1
        if count_lines(data[begin:end]) > self.lines_a_piece:
            end -= len(data[begin:end].split(b"\n", self.lines_a_piece)[-1])
        return end

    def messages(self, data: bytes) -> int:
        """How many messages a piece with this text is."""
        return max(1, count_lines(data)) if self.lines_a_piece > 1 else 1

    @property
    def edits_lines(self) -> bool:
        """Whether patterns see a line as a whole: then it is cut as late as possible."""
        return self.lead_bytes > 0 or self.context_bytes > 0

    def first_piece(self, line: bytes, charset: Charset) -> bytes:
        """The piece that a long line began with, as it was cut before a restart."""
        most = self.read_bytes(charset)
        return line if len(line) < most else line[: self._seam(line[:most], charset, 0)]

    def _seam(self, data: bytes, charset: Charset, at: int) -> int:
        behind = len(data)
        if charset is Charset.BYTES:
            behind = self.seam(data) if self.seam else _record_end(data) or len(data)
        return charset.whole(data[:behind], at=at)


def _record_end(data: bytes) -> int:
    """The index after the last CR or NUL that ends a record of `data`, which has no newline; 0: none.

    A CR at the end may be half of CRLF. NULs next to each other, or at every second byte (UTF-16), end nothing.
    """
    nul = data.rfind(b"\0") + 1
    is_end = nul > MIN_RECORD_BYTES and b"\0" not in data[nul - 1 - MIN_RECORD_BYTES : nul - 1]
    return max(data.rfind(b"\r", 0, len(data) - 1) + 1, nul if is_end else 0)


_Found = tuple[int, int, bytes, str]
"""Begin and negative end of a secret, what stands for it, and the rule: sorted, the longest of a begin is the first."""


class Redaction(NamedTuple):
    """What is redacted, and what stands for it."""

    find: Callable[[bytes], Iterable[Hit]]
    name: bytes  #: `[card]`


# -- the edits ---------------------------------------------------------------------------------------------------------

SEAM_BYTES = 4096
"""Maximum bytes before the end of an over-long line's piece in which a place to cut is searched."""
CLEAR_BYTES = 512
"""How many bytes of the line after that place are checked."""
CONTEXT_BYTES = 4096
"""How much of a line before a piece that begins in its middle the redaction of its rest takes into account."""
NAME_BYTES = 64
"""How far before a secret the name may begin by which it is known."""
MOST_NAMES = 10_000
"""Names of files that are remembered."""
HASH_DIGITS = 12
_SEPARATOR = re.compile(rb"[ \t,;&|]+")
_STARRED = re.compile(rb"[^\0]")


class Text(NamedTuple):
    """The edited text of a piece, and how it came out of the bytes of the file."""

    content: bytes
    edits: list[Edit]
    redacted: Mapping[str, int] = MappingProxyType({})  #: how often each rule fired


class Change(NamedTuple):
    """Bytes `begin` to `end` of a text are replaced."""

    begin: int
    end: int
    by: bytes
    rule: str = ""  #: of a redaction


class Hidden(NamedTuple):
    """A line that redaction changes."""

    begin: int  #: in the text
    text: bytes  #: after the redaction
    rules: tuple[str, ...]  #: one for each place


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits:
    """The changes to the text of every file. None, by default."""

    keep: tuple[Linear, ...] = ()
    drop: tuple[Linear, ...] = ()
    redact: tuple[Redaction, ...] = ()
    charset: str = ""  #: utf-16 (where a file begins with a byte order mark), utf-16-le, utf-16-be
    zones: HostZones = UTC_HOST
    most_bytes: int = MAX_BLOCK_BYTES  #: how far a piece's text may grow; at least 1.5 times what is read of UTF-16
    name_key: bytes = field(default=b"", repr=False)  #: of the hashes in names of files
    keys: KeyState = field(default_factory=KeyState, compare=False)
    names: dict[str, str] = field(default_factory=dict, compare=False)  #: names in the archive that are known

    @classmethod
    def of(
        cls,
        *,
        keep_lines: Collection[str] = (),
        drop_lines: Collection[str] = (),
        redact: Collection[str] = (),
        charset: str = "",
        zones: HostZones = UTC_HOST,
        most_bytes: int = MAX_BLOCK_BYTES,
        name_key: bytes = b"",
    ) -> "Edits":
        """The edits that settings name. Raises PatternError: the settings have not been validated."""
        patterns = [text for text in redact if text not in KINDS]

        def redaction(text: str) -> Redaction:
            if text in KINDS:
                return Redaction(detector(text), b"[%s]" % text.encode())
            rule = f"pattern-{patterns.index(text) + 1}"  # its text may hold what it redacts
            return Redaction(of_pattern(Linear(text.encode()).matches, rule), b"[redacted]")

        return cls(
            keep=tuple(Linear(text.encode()) for text in keep_lines),
            drop=tuple(Linear(text.encode()) for text in drop_lines),
            redact=tuple(map(redaction, redact)),
            charset=charset,
            zones=zones,
            most_bytes=most_bytes,
            name_key=name_key,
        )

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
        """How files are cut so that their pieces can be edited one by one.

        `line_a_piece`: each line becomes a message. Lines that may be edited are cut apart before that.
        """
        return Cut(
            block_bytes,
            lines_a_piece=(1 if self.change_text else LINES) if line_a_piece else 0,
            lead_bytes=block_bytes if self.keep or self.drop else 0,
            context_bytes=CONTEXT_BYTES if self.redact else 0,
            charset=self.charset or (DETECTED if self.redact else ""),
            seam=self.seam if self.redact else None,
        )

    def of_piece(self, piece: Piece) -> Text | None:
        """The edited text of `piece`; None: it goes as it is."""
        if not piece.data:
            return None
        if piece.charset is not Charset.BYTES:
            return self._converted(piece)
        more = [*self._body_of_key(piece), *self._continued(piece.data, piece.context)]
        changes = self._changes(piece.data, piece.lead, more)
        return _replaced(piece.data, self._fitting(changes, len(piece.data))) if changes else None

    def of_name(self, file: str) -> str:
        """The name of a file in the archive: in place of each secret what redaction writes, and a hash of the secret.

        The hash keeps files apart, and is the same after a restart. Its key keeps people from trying secrets.
        """
        if not self.redact:
            return file
        if (known := self.names.get(file)) is None:
            if len(self.names) >= MOST_NAMES:
                self.names.clear()
            name = file.encode("utf-8", "surrogateescape")
            for begin, end, by, _ in reversed(self._redactions(name, [])):
                digest = hmac.new(self.name_key, name[begin:end], "sha256").hexdigest()[:HASH_DIGITS]
                name = b"%s%s-%s%s" % (name[:begin], by, digest.encode(), name[end:])
            name = name if name.startswith(b"/") or not file.startswith("/") else b"/" + name
            known = name.decode("utf-8", "surrogateescape")
            self.names[file] = self.names[known] = known  # a log may get a name that is redacted already
        return known

    def _body_of_key(self, piece: Piece) -> list[_Found]:
        """What of `piece` goes on with a private key that an earlier piece began."""
        if not any(each.name == b"[token]" for each in self.redact):
            return []
        is_open = self.keys.is_open(piece.source, piece.span.start)
        if leaves_open(piece.data, is_open=is_open):
            self.keys.leave_open(piece.source, piece.span.end)
        found = private_keys(piece.data, "private-key", is_open=True) if is_open else ()
        return [(begin, -end, b"[token]", rule) for begin, end, rule in found]

    def seam(self, data: bytes) -> int:
        """Where to cut an over-long line: in nothing to redact that is shorter than `CLEAR_BYTES`, if it can be.

        It is after a separator, so far before the end of `data` that what begins before the cut ends in sight.
        """
        reach, clear = min(SEAM_BYTES, len(data) // 2), min(CLEAR_BYTES, len(data) // 4)
        around = data[-2 * reach :]
        secrets = joined(sorted(hit[:2] for rule in self.redact for hit in rule.find(around)))
        ends = [found.end() for found in _SEPARATOR.finditer(around, reach, len(around) - clear)]
        for end in (*reversed(ends), len(around) - clear):
            if not any(begin - NAME_BYTES < end < stop for begin, stop in secrets):
                return len(data) - len(around) + end
        return len(data)

    # -- what changes in a text ---------------------------------------------------------------------------------

    def _changes(self, data: bytes, lead: bytes, more: Iterable[_Found] = ()) -> list[Change]:
        """In order, apart from each other. `lead`: the first piece of the line in whose middle `data` begins."""
        out = self._left_out(data, lead) if self.keep or self.drop else []
        changes = [Change(begin, end, b"") for begin, end in out]
        if self.redact and out != [(0, len(data))]:
            changes += self._redactions(data, out, more)
            changes.sort()
        return changes

    def _left_out(self, data: bytes, lead: bytes) -> list[Range]:
        """The runs of lines that are left out: `drop` wins over `keep`."""
        dropped = {span for pattern in self.drop for span in lines_with(pattern, data)}
        kept = {span for pattern in self.keep for span in lines_with(pattern, data)} - dropped
        if lead:
            first = (0, data.find(b"\n") + 1 or len(data))
            dropped.discard(first)
            kept.discard(first)
            (kept if self._is_kept(lead) else dropped).add(first)
        return others(joined(sorted(kept)), len(data)) if self.keep else joined(sorted(dropped))

    def _is_kept(self, line: bytes) -> bool:
        kept, dropped = [any(each.search(line, 0, len(line)) for each in rule) for rule in (self.keep, self.drop)]
        return (kept or not self.keep) and not dropped

    def _redactions(self, data: bytes, out: list[Range], more: Iterable[_Found] = ()) -> list[Change]:
        """The secrets of `data` and `more`, in order, apart from each other, less what is in a range of `out`.

        In UTF-16 or UTF-32 that was taken for bytes they are searched without its NULs, and each byte becomes a star.
        """
        is_wide = is_wide_text(data)
        places = [at for at, octet in enumerate(data) if octet] if is_wide else range(len(data))
        text = data.replace(b"\0", b"") if is_wide else data
        hits = ((hit, each.name) for each in self.redact for hit in each.find(text))
        secrets = ((places[hit.begin], -places[hit.end - 1] - 1, name, hit.rule) for hit, name in hits)
        changes: list[Change] = []
        for begin, minus_end, name, rule in sorted((*secrets, *more)):
            if changes and begin < changes[-1].end:  # one secret in another: the longer of both goes
                changes[-1] = changes[-1]._replace(end=max(changes[-1].end, -minus_end))
            elif not _within(begin, out):
                changes.append(Change(begin, -minus_end, name, rule))
        if is_wide:
            return [each._replace(by=_STARRED.sub(b"*", data[each.begin : each.end])) for each in changes]
        return changes

    def _continued(self, data: bytes, context: bytes) -> Iterator[_Found]:
        """The secrets of the first line of `data` that only the bytes before it, `context`, show."""
        line = data[: data.find(b"\n") + 1 or len(data)]
        for each in self.redact if context else ():
            for begin, end, rule in after_lead(each.find, context, line):
                yield begin, -end, each.name, rule

    def _fitting(self, changes: list[Change], length: int) -> list[Change]:
        """Where the text would grow beyond what a block holds, stars, no longer than what they stand for."""
        grown = length + sum(len(by) - (end - begin) for begin, end, by, _ in changes)
        if grown <= self.most_bytes:
            return changes
        return [change._replace(by=b"*" * min(change.end - change.begin, len(change.by))) for change in changes]

    def hidden_lines(self, data: bytes) -> Iterator[Hidden]:
        """The lines of `data` that redaction changes, with the length of each secret: `[token 7]`."""
        end = 0
        of_line: list[Change] = []
        for change in self._redactions(data, []):
            if change.begin >= end:
                yield from _hidden(data, of_line)
                of_line = []
                end = data.find(b"\n", change.end) + 1 or len(data)
            of_line.append(change)
        yield from _hidden(data, of_line)

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
        context = charset.text(piece.context, at=at - len(piece.context))
        changes = self._changes(text, charset.text(piece.lead, at=0), self._continued(text, context))
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
    return Text(b"".join(content), edits, fired(changes))


def _replaced(data: bytes, changes: list[Change]) -> Text:
    content: list[bytes] = []
    edits: list[Edit] = []
    place = 0
    for begin, end, by, _ in changes:
        content += (data[place:begin], by)
        edits.append(Edit(begin - place, end - begin, len(by)))
        place = end
    content.append(data[place:])
    return Text(b"".join(content), edits, fired(changes))


def _hidden(data: bytes, changes: list[Change]) -> Iterator[Hidden]:
    """The line of `changes`; none, if there are none."""
    if not changes:
        return
    begin = data.rfind(b"\n", 0, changes[0].begin) + 1
    end = data.find(b"\n", changes[-1].end) + 1 or len(data)
    shown = [
        Change(each.begin - begin, each.end - begin, each.by[:-1] + b" %d]" % (each.end - each.begin))
        for each in changes
    ]
    yield Hidden(begin, _replaced(data[begin:end], shown).content, tuple(each.rule for each in changes))


def fired(changes: Iterable[Change]) -> Mapping[str, int]:
    """How often each rule fired."""
    return Counter(change.rule for change in changes if change.rule)


def _within(place: int, ranges: list[Range]) -> bool:
    at = bisect_right(ranges, (place, MAX_BLOCK_BYTES * 2)) - 1
    return at >= 0 and place < ranges[at][1]


NO_EDITS = Edits()
