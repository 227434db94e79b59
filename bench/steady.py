"""A writer at a steady pace: lines that hold the moment of their writing, in turn over some files.

python steady.py LINES_A_SECOND LINE_BYTES SECONDS FILE...     each line: nanoseconds (monotonic), a number, filling
"""

import os
import sys
import time

TICK_SECONDS = 0.001


def write(rate: float, line_bytes: int, seconds: float, paths: list[str]) -> None:
    """A line is one write; the pace is kept over the whole time, however late a single one is."""
    files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) for path in paths]
    began, written = time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        for number in range(written, int(now * rate)):
            text = b"%d %d " % (time.monotonic_ns(), number)
            os.write(files[number % len(files)], text.ljust(line_bytes - 1, b".") + b"\n")
        written = int(now * rate)
        time.sleep(TICK_SECONDS)


if __name__ == "__main__":
    write(float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])
