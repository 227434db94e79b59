"""A clock that a test turns by hand."""

NANOSECONDS = 1_000_000_000
START_NS = 1_795_168_800 * NANOSECONDS
"""2026-11-20T10:00:00Z."""


class Clock:
    """Time that stands still until somebody turns it; call it for seconds, as `time.monotonic`."""

    def __init__(self, now_ns: int = START_NS) -> None:
        self._now_ns = now_ns

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return self._now_ns / NANOSECONDS

    def stamp(self) -> int:
        """Nanoseconds since the epoch; no two stamps are the same."""
        self._now_ns += 1
        return self._now_ns

    def turn(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self._now_ns += round(seconds * NANOSECONDS)
