"""The console script `fshipper`, also as `python -m shipper`: Ctrl-C ends it quietly from the first millisecond on.

Only modules that the interpreter has loaded already are imported here; `signal` would import `enum`, some ms more.
"""

import _signal  # type: ignore[import-not-found]
import os

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run one verb and end the process with its exit code."""
    _signal.signal(_signal.SIGINT, lambda *_: os._exit(EXIT_INTERRUPTED))
    from shipper import main as face  # noqa: PLC0415

    try:
        face.main()
    finally:
        # While it ends, the interpreter resets handlers to SIG_DFL, and a late Ctrl-C would replace the exit code.
        # It leaves SIG_IGN as it is.
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)


if __name__ == "__main__":
    main()
