"""What becomes of memory that is free again: the C library would give much of it back, only to ask for it at once."""

import contextlib
import ctypes

KEPT_BYTES = 8 * 1024 * 1024
"""Free at the end of a heap; more goes back to the system."""
MAPPED_BYTES = 4 * 1024 * 1024
"""What is smaller comes from a heap. Blocks, and what they are packed into, are."""
_TRIM_THRESHOLD, _MAP_THRESHOLD = -1, -3  # of glibc's mallopt(3)


def keep_freed_memory() -> None:
    """Use the memory of one block for the next. Where the C library is another one nothing changes.

    Else each block may touch pages that are new to the process: measured, a third of a second a GiB and more.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_MAP_THRESHOLD, MAPPED_BYTES)
