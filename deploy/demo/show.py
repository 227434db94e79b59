"""What a demo prints: its steps and events with the time since it began, and the output of the programs as it is."""

import time
from typing import TextIO

PROGRESS_SECONDS = 5.0
"""Time between two lines of progress."""


class DemoOutput:
    """The text of a demo, line by line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._next = PROGRESS_SECONDS

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._began

    def text(self, text: str) -> None:
        """Show `text` as it is."""
        self._stream.write(text.rstrip("\n") + "\n")
        self._stream.flush()

    def step(self, title: str) -> None:
        """Begin a step."""
        self.text(f"{self.seconds:5.1f} s  {title} ...")

    def event(self, text: str) -> None:
        """Show an event of the step."""
        self.text(f"{self.seconds:5.1f} s    {text}")

    def progress(self, written: int, archived: int) -> None:
        """Show how many bytes were written, and how many are in the archive, if the last time is long ago."""
        if written and self.seconds >= self._next:
            self._next = self.seconds + PROGRESS_SECONDS
            self.event(f"{size(written)} written, {size(archived)} in the archive")


def size(octets: int) -> str:
    """`octets` for people: 12.3 MB."""
    return f"{octets / 1e6:.1f} MB"
