"""Files that are no UTF-8: where their lines end, and their text as UTF-8. Offsets count bytes of the file.

The first piece of the line in whose middle a file is being read: it decides about the whole line.
"""

import enum
import os
import re

BOMS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
BOM_BYTES = 2
UTF_32_BOMS = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
DETECTED = "detected"
"""Not a setting: with `redact`, files in UTF-16 are recognised by their mark, or by ASCII between NULs."""
PROBE_BYTES = 4
SAMPLE_BYTES = 4096
_BETWEEN_NULLS = re.compile(rb"\0[\t\n\r\x20-\x7e]|[\t\n\r\x20-\x7e]\0")
UNIT_BYTES = 2
"""Of UTF-16: a newline is one only where it begins at an even offset of the file."""
_SURROGATES = range(0xD8, 0xDC)
"""High bytes of a code unit that needs the next one."""


class Charset(enum.Enum):
    """How the text of a file is written."""

    BYTES = "bytes"  #: shipped as it is: a line ends with the byte 0x0A
    UTF_16_LE = "utf-16-le"
    UTF_16_BE = "utf-16-be"

    @property
    def newline(self) -> bytes:
        """What ends a line."""
        return {"utf-16-le": b"\n\0", "utf-16-be": b"\0\n"}.get(self.value, b"\n")

    def first_end(self, data: bytes, begin: int, *, at: int) -> int:
        """The index after the first newline from `begin` on. 0: none. `at`: offset of `data` in its file."""
        if self is Charset.BYTES:
            return data.find(b"\n", begin) + 1
        found = data.find(self.newline, begin)
        while found >= 0 and (at + found) % UNIT_BYTES:
            found = data.find(self.newline, found + 1)
        return found + len(self.newline) if found >= 0 else 0

    def last_end(self, data: bytes, *, at: int) -> int:
        """The index after the last newline. 0: none."""
        if self is Charset.BYTES:
            return data.rfind(b"\n") + 1
        found = data.rfind(self.newline)
        while found >= 0 and (at + found) % UNIT_BYTES:
            found = data.rfind(self.newline, 0, found + len(self.newline) - 1)
        return found + len(self.newline) if found >= 0 else 0

    def whole(self, data: bytes, *, at: int) -> int:
        """How many bytes of `data`, the beginning of a longer line, end with a whole character."""
        if self is Charset.BYTES:
            return _whole_utf_8(data)
        even = len(data) - (at + len(data)) % UNIT_BYTES
        high = even - (1 if self is Charset.UTF_16_LE else UNIT_BYTES)
        return even - UNIT_BYTES if even > UNIT_BYTES and data[high] in _SURROGATES else even

    def text(self, line: bytes, *, at: int) -> bytes:
        """One line of UTF-16 as UTF-8, without a byte order mark. What is invalid becomes U+FFFD."""
        if at % UNIT_BYTES and line:  # half a character: the file was shipped from an odd offset on
            return "\ufffd".encode() + self.text(line[1:], at=at + 1)
        text = line.decode(self.value, "replace")
        return (text.removeprefix("\ufeff") if at == 0 else text).encode()


def charset_of(chosen: str, head: bytes) -> Charset:
    """The encoding of a file that begins with `head`. `chosen`: the setting `charset`."""
    name = BOMS.get(head[:BOM_BYTES], "") if chosen in ("utf-16", DETECTED) else chosen
    if head[:PROBE_BYTES] in UTF_32_BOMS:
        name = ""
    elif chosen == DETECTED and not name and not len(head) % UNIT_BYTES and len(head) >= PROBE_BYTES:
        name = _guessed(head)
    return Charset(name) if name else Charset.BYTES


def _guessed(head: bytes) -> str:
    """The encoding of a head without a mark, each of whose characters is ASCII in UTF-16. Empty: it is not."""
    even, odd = head[::UNIT_BYTES], head[1::UNIT_BYTES]
    if not odd.strip(b"\0") and b"\0" not in even:
        return "utf-16-le"
    return "utf-16-be" if not even.strip(b"\0") and b"\0" not in odd else ""


def is_wide_text(data: bytes) -> bool:
    """Whether bytes that are taken for UTF-8 are rather UTF-16 or UTF-32: characters of ASCII between NULs."""
    sample = data[:SAMPLE_BYTES]
    if sample[:PROBE_BYTES] in UTF_32_BOMS:
        return True
    nulls = sample.count(0)
    return nulls >= PROBE_BYTES and len(sample) * 2 <= nulls * 5 and len(_BETWEEN_NULLS.findall(sample)) * 4 >= nulls


def _whole_utf_8(data: bytes) -> int:
    """Bytes that end with a whole character, at most 3 fewer than there are. Where it is no UTF-8, all."""
    for back, octet in enumerate(reversed(data[-3:]), start=1):
        if octet < 0x80:  # noqa: PLR2004 - ASCII
            return len(data)
        if octet >= 0xC0:  # noqa: PLR2004 - the first byte of a character
            needs = 2 if octet < 0xE0 else 3 if octet < 0xF0 else 4  # noqa: PLR2004
            return len(data) - back if needs > back and len(data) > back else len(data)
    return len(data)


MAX_SEARCH_BYTES = 16 * 1024 * 1024
"""Maximum distance, in bytes, at which the start of a line is searched before an offset."""
CHUNK_BYTES = 64 * 1024


def lead_before(descriptor: int, offset: int, charset: Charset, *, most: int) -> bytes:
    """The first bytes, at most `most`, of the line that `offset` is in the middle of; b"": it is at a line's start.

    A line that starts further back than `MAX_SEARCH_BYTES` counts from there. Raises OSError: unknown.
    """
    begin, start = offset, max(0, offset - MAX_SEARCH_BYTES)
    while begin > start:
        chunk = max(start, begin - CHUNK_BYTES)
        data = os.pread(descriptor, begin - chunk + UNIT_BYTES - 1, chunk)[: offset - chunk]  # a newline may be halved
        if end := charset.last_end(data, at=chunk):
            start = chunk + end
            break
        begin = chunk
    return os.pread(descriptor, min(most, offset - start), start)
