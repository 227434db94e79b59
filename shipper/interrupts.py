"""The signals that end a command, other than Ctrl-C, which `shipper.main` handles."""

import signal


def interrupt_on_termination() -> None:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: what it opened is closed, and its temporary files are removed.

    A signal that is ignored, as SIGHUP by nohup, stays ignored.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
