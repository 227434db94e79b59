"""A question to the person at the terminal, before anything that exists is touched."""

import sys

import typer

from shipper.errors import UsageError


def confirm(*, yes: bool, question: str = "Do it?") -> None:
    """Go on only with a yes.

    Raises:
        UsageError: there is nobody to ask, or the answer is no.
    """
    if yes:
        return
    sys.stdout.flush()
    if not sys.stdin.isatty():
        raise UsageError("this changes what exists, and there is no terminal to ask", hint="look at it, then --yes")
    if not typer.confirm(question):
        raise UsageError("nothing was changed")
