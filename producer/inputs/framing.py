"""Syslog messages -> lines. Pure: bytes in, lines out.

A message is one line, exactly the bytes that came: PRI and all. What ends it on the way (LF, CRLF, NUL) is left off, a
newline inside is written `#012`, as rsyslog does. Streams: octet counting (RFC 6587) and newlines, told apart at each
message: `<digits> <` begins a counted one.
"""

import re

MAX_MESSAGE_BYTES = 64 * 1024
"""Of one line; a longer message is split over lines, never cut short or dropped."""

_COUNT = re.compile(rb"([1-9][0-9]{0,8}) <")
_PERHAPS_COUNT = re.compile(rb"[1-9][0-9]{0,8} ?")


def line_of(message: bytes) -> bytes:
    """A whole message as one line with its newline; b"" where nothing is in it."""
    body = _trimmed(message)
    return body.replace(b"\n", b"#012") + b"\n" if body else b""


def _trimmed(message: bytes) -> bytes:
    body = message.rstrip(b"\0")
    if body.endswith(b"\n"):
        body = body[:-1].removesuffix(b"\r")
    return body.rstrip(b"\0")


class Frames:
    """The messages of one connection, as its bytes arrive. `ends`: the bytes that end a message without a count."""

    def __init__(self, ends: bytes = b"\n") -> None:
        self._ends = re.compile(b"[" + re.escape(ends) + b"]")
        self._held, self._at = b"", 0  # bytes before `_at` are done with
        self._left = 0  # bytes to come of a counted message, longer than a line may be

    def feed(self, data: bytes) -> bytes:
        """The lines that are complete now."""
        self._held, self._at = self._held[self._at :] + data, 0
        lines = []
        while self._at < len(self._held) and (taken := self._take()) is not None:
            lines.append(taken)
        return b"".join(lines)

    def close(self) -> bytes:
        """The line that the connection ended in, if it did."""
        held, self._held, self._at, self._left = self._held[self._at :], b"", 0, 0
        return line_of(held)

    def _take(self) -> bytes | None:
        """The next line; None: more must come first."""
        if self._left:
            return self._take_counted()
        counted = _COUNT.match(self._held, self._at)
        if counted:
            self._at, self._left = counted.end(1) + 1, int(counted[1])
            return self._take_counted()
        if _PERHAPS_COUNT.fullmatch(self._held, self._at):
            return None
        return self._take_ended()

    def _take_counted(self) -> bytes | None:
        size = min(self._left, MAX_MESSAGE_BYTES)
        if len(self._held) - self._at < size:
            return None
        self._left -= size
        return line_of(self._next(size))

    def _take_ended(self) -> bytes | None:
        end = self._ends.search(self._held, self._at, self._at + MAX_MESSAGE_BYTES + 1)
        if end:
            return line_of(self._next(end.end() - self._at)[:-1] + b"\n")
        if len(self._held) - self._at <= MAX_MESSAGE_BYTES:
            return None
        return line_of(self._next(MAX_MESSAGE_BYTES) + b"\n")

    def _next(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        return self._held[start : self._at]
