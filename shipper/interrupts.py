"""How signals end a command: while it imports its modules, and SIGTERM and SIGHUP. `shipper.main` handles the rest."""

import contextlib
import os
import signal
from collections.abc import Iterator

from shipper.errors import EXIT_INTERRUPTED


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Ctrl-C in the block ends the process immediately: for imports in a command, before anything is open.

    A KeyboardInterrupt within an import can be swallowed, with a traceback.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    try:
        yield
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)


def interrupt_on_termination() -> None:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: what it opened is closed, and its temporary files are removed.

    A signal that is ignored, as SIGHUP by nohup, stays ignored.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
