"""A writer at a steady pace: lines that hold the moment of their writing, in turn over some files.

python steady.py LINES_A_SECOND LINE_BYTES SECONDS TICK_SECONDS FILE...

Each line: nanoseconds (monotonic), a number, filling.
"""

import os
import sys
import time


def write(rate: float, line_bytes: int, seconds: float, tick: float, paths: list[str]) -> None:
    """The lines of a tick are one write to each file; the pace is kept over the whole time, however late a tick is."""
    files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) for path in paths]
    began, written = time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        due = int(now * rate)
        for place, file in enumerate(files):
            numbers = range(written + (place - written) % len(files), due, len(files))
            os.write(file, b"".join(_line(number, line_bytes) for number in numbers))
        written = due
        time.sleep(tick)


def _line(number: int, line_bytes: int) -> bytes:
    return (b"%d %d " % (time.monotonic_ns(), number)).ljust(line_bytes - 1, b".") + b"\n"


if __name__ == "__main__":
    write(*map(float, sys.argv[1:2]), int(sys.argv[2]), *map(float, sys.argv[3:5]), sys.argv[5:])
