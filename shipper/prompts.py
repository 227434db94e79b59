"""Prompts before a command changes what exists."""

import sys

import typer

from shipper.errors import UsageError


def confirm(
    *,
    yes: bool,
    question: str = "Do it?",
    what: str = "this changes what exists",
    hint: str = "review it, then give --yes",
    unchanged: str = "nothing was changed",
) -> None:
    """Prompt for confirmation, but with `yes`.

    Raises:
        UsageError: there is no terminal (`what`, `hint`), or the answer is no (`unchanged`).
    """
    if yes:
        return
    sys.stdout.flush()
    if not sys.stdin.isatty():
        raise UsageError(f"{what}, and there is no terminal for a prompt", hint=hint)
    if not typer.confirm(question):
        raise UsageError(unchanged)
