"""When each byte of a text was stored: a mark wherever the second of storing changed.

A mark is an offset of the text and a second since 1970 (UTC). Text from the offset on was stored in that second, up to
the next mark. A negative second is an estimate: the text was stored in that second or later, until the next mark.

    encoded   for each mark the difference of its offset and of its second to those of the mark before (s64 each),
              as 16 planes: the first byte of all marks, then the second byte of all marks, ...; raw deflate

A mark takes about one byte so, because planes of zeros cost nothing.
"""

import base64
import itertools
import struct
import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from shipper.layout import NANOSECONDS

PLANES = 16
MAX_MARKS = 1_000_000
"""A segment with more of them has estimates: no second of a day has several, unless clocks go back again and again."""
_PAIR = struct.Struct("<qq")
_RAW_DEFLATE = -15
_LEVEL = 6


class Mark(NamedTuple):
    """Text from an offset on was stored in a second."""

    offset: int = 0
    second: int = 0  #: since 1970; negative: then or later, until the next mark; 0: there is no mark


NO_MARK = Mark()


def appended(mark: Mark, before: Mark) -> bytes:
    """`mark` as what follows the bytes of the marks up to `before`."""
    return _PAIR.pack(mark.offset - before.offset, mark.second - before.second)


def cut(plain: bytes, raw: int) -> tuple[bytes, Mark]:
    """The bytes of the marks that a text has when only its first `raw` bytes are left, and the last of these marks."""
    mark = NO_MARK
    for at in range(0, len(plain), PLANES):
        offset, second = _PAIR.unpack_from(plain, at)
        if mark.offset + offset >= raw:
            return plain[:at], mark
        mark = Mark(mark.offset + offset, mark.second + second)
    return plain, mark


def pack(plain: bytes) -> bytes:
    """The bytes of some marks, encoded."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
    return packer.compress(b"".join(plain[plane::PLANES] for plane in range(PLANES))) + packer.flush()


def unpack(encoded: bytes) -> bytes:
    """What was given to `pack`. Raises ValueError: it was damaged."""
    try:
        unpacker = zlib.decompressobj(_RAW_DEFLATE)
        planes = unpacker.decompress(encoded, PLANES * MAX_MARKS)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(planes) % PLANES or not unpacker.eof:
        raise ValueError("no marks")
    plain, count = bytearray(len(planes)), len(planes) // PLANES
    for plane in range(PLANES):
        plain[plane::PLANES] = planes[plane * count : (plane + 1) * count]
    return bytes(plain)


def to_text(plain: bytes) -> str:
    """The bytes of some marks as a manifest line has them: encoded, in base64."""
    return base64.b64encode(pack(plain)).decode() if plain else ""


def from_text(text: str) -> bytes:
    """What was given to `to_text`, empty if it was damaged."""
    try:
        return unpack(base64.b64decode(text, validate=True)) if text else b""
    except ValueError:
        return b""


@dataclass(frozen=True, slots=True)
class StoredTimes:
    """When the bytes of a text were stored. The first mark is at the offset 0."""

    offsets: Sequence[int]
    seconds: Sequence[int]
    last_ns: int  #: when the last of it was stored
    raw: int  #: bytes of the text

    @classmethod
    def of(cls, plain: bytes, *, first_ns: int, last_ns: int, raw: int) -> "StoredTimes":
        """Those of a text of `raw` bytes. `plain` are the bytes of its marks. What is before the first is estimated."""
        pairs = array("q")
        pairs.frombytes(plain[: len(plain) - len(plain) % PLANES])
        if sys.byteorder == "big":
            pairs.byteswap()
        offsets = list(itertools.accumulate(pairs[0::2]))
        count = next((number for number, offset in enumerate(reversed(offsets)) if offset < raw), len(offsets))
        found = cls(offsets, list(itertools.accumulate(pairs[1::2])), last_ns, raw)
        if count:  # of bytes that another program took away
            found = replace(found, offsets=offsets[:-count], seconds=found.seconds[:-count])
        if found.offsets and not found.offsets[0] and len(found.offsets) <= MAX_MARKS:
            return found
        estimate = cls.estimated(first_ns, last_ns, raw)
        if len(found.offsets) > MAX_MARKS:
            return estimate
        return replace(found, offsets=[0, *found.offsets], seconds=[*estimate.seconds, *found.seconds])

    @classmethod
    def estimated(cls, first_ns: int, last_ns: int, raw: int) -> "StoredTimes":
        """Those of a text of which only the first and the last time are known."""
        first = first_ns // NANOSECONDS
        return cls((0,), (first if first == last_ns // NANOSECONDS else -first,), last_ns, raw)

    @property
    def is_exact(self) -> bool:
        """Whether all of it is known to the second."""
        return min(self.seconds, default=0) >= 0

    @property
    def plain(self) -> bytes:
        """The bytes of all marks, as `of` takes them."""
        pairs = array("q", bytes(PLANES * len(self.offsets)))
        pairs[0::2] = array("q", _differences(self.offsets))
        pairs[1::2] = array("q", _differences(self.seconds))
        if sys.byteorder == "big":
            pairs.byteswap()
        return pairs.tobytes()

    @property
    def marks(self) -> bytes:
        """The same for a segment, empty where its manifest line has as much: all was stored in one second."""
        is_told = len(self.seconds) == 1 and self.seconds[0] in {-abs(self.seconds[0]), self.last_ns // NANOSECONDS}
        return b"" if is_told else self.plain

    def at(self, offset: int) -> int:
        """The stored time of a byte, ns: the second of its mark. An estimate is in proportion to the bytes."""
        return self.known_at(offset)[0]

    def known_at(self, offset: int) -> tuple[int, bool]:
        """The stored time of a byte, and whether its second is known."""
        number = max(0, bisect_right(self.offsets, offset) - 1)
        second = self.seconds[number]
        if second > 0:
            return second * NANOSECONDS, True
        first_ns, last_ns = -second * NANOSECONDS, self._end_ns(number)
        start = self.offsets[number]
        end = self.offsets[number + 1] if number + 1 < len(self.offsets) else self.raw
        return first_ns + (last_ns - first_ns) * (offset - start) // max(1, end - start), first_ns == last_ns

    def bounds(self, offset: int) -> tuple[int, int]:
        """The first and the last time, ns, at which a byte may have been stored. They are equal if it is known."""
        number = max(0, bisect_right(self.offsets, offset) - 1)
        second = self.seconds[number]
        return (abs(second) * NANOSECONDS, abs(second) * NANOSECONDS if second > 0 else self._end_ns(number))

    def within(self, since_ns: int, until_ns: int | None) -> tuple[int, int]:
        """The first and the last offset between which text may have been stored in a span of time."""
        if not since_ns and until_ns is None:
            return 0, self.raw
        since, until = since_ns // NANOSECONDS, None if until_ns is None else -(-until_ns // NANOSECONDS)
        wanted = [
            number
            for number, second in enumerate(self.seconds)
            if (second >= since if second > 0 else self._end_ns(number) >= since_ns)
            and (until is None or abs(second) < until)
        ]
        if not wanted:
            return self.raw, self.raw
        stop = wanted[-1] + 1
        return self.offsets[wanted[0]], self.offsets[stop] if stop < len(self.offsets) else self.raw

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The first and the last time, ns, at which some of the bytes `start` to `end` may have been stored."""
        first = max(0, bisect_right(self.offsets, start) - 1)
        stop = max(first + 1, bisect_left(self.offsets, end))
        seconds = [abs(second) for second in self.seconds[first:stop]]
        last_ns = max(seconds) * NANOSECONDS
        if self.seconds[stop - 1] < 0:
            last_ns = max(last_ns, self._end_ns(stop - 1))
        return min(seconds) * NANOSECONDS, last_ns

    def _end_ns(self, number: int) -> int:
        """The last time at which the text of an estimate may have been stored."""
        following = self.seconds[number + 1] * NANOSECONDS if number + 1 < len(self.seconds) else self.last_ns
        return max(abs(following), abs(self.seconds[number]) * NANOSECONDS)

    def part(self, start: int, end: int) -> "StoredTimes":
        """Those of the bytes `start` to `end`."""
        first = max(0, bisect_right(self.offsets, start) - 1)
        stop = max(first + 1, bisect_right(self.offsets, end - 1))
        offsets = [max(0, offset - start) for offset in self.offsets[first:stop]]
        last_ns = self.last_ns if stop == len(self.seconds) else abs(self.seconds[stop]) * NANOSECONDS
        return StoredTimes(offsets, list(self.seconds[first:stop]), last_ns, max(0, end - start))


def joined(parts: Iterable[StoredTimes]) -> StoredTimes:
    """Those of texts that become one."""
    offsets, seconds, last_ns, raw = list[int](), list[int](), 0, 0
    for part in parts:
        if not part.raw:
            continue
        begin = 1 if seconds and seconds[-1] == part.seconds[0] > 0 else 0
        if seconds and seconds[-1] < 0 and -last_ns < part.seconds[0] * NANOSECONDS < 0:  # estimates that overlap
            seconds[-1], begin = max(seconds[-1], part.seconds[0]), 1
        offsets += [raw + offset for offset in part.offsets[begin:]]
        seconds += part.seconds[begin:]
        last_ns, raw = max(last_ns, part.last_ns), raw + part.raw
    return StoredTimes(offsets or (0,), seconds or (0,), last_ns, raw)


def _differences(numbers: Sequence[int]) -> Iterable[int]:
    return itertools.chain(numbers[:1], (later - one for one, later in itertools.pairwise(numbers)))
