"""Why a demo ends before its proof."""

EXIT_OTHER = 1
EXIT_UNAVAILABLE = 69
EXIT_CONFIG = 78
SIGNALLED = 128
"""Added to a signal's number, as shells do."""


class DemoError(Exception):
    """What is wrong, what the reader may do, and the exit code."""

    def __init__(self, message: str, *, hint: str = "", code: int = EXIT_OTHER) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


class Interrupted(Exception):  # noqa: N818 - nothing is wrong: somebody asked
    """A signal asked the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.code = SIGNALLED + number
