"""Finds what was meant by a mistyped command, option or value, from the error that the parser raised."""

import re
from typing import Any

from shipper.nearest import did_you_mean, nearest

_NO_COMMAND = re.compile(r"No such command '(.*?)'")
_NO_CHOICE = re.compile(r"'([^']*)' is not one of (.*)\.$")


def correction(error: Any, message: str) -> tuple[str, str]:
    """The message and the hint for an error of the command line."""
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "fshipper")
    more = f"{path} --help shows what it takes"
    if option := getattr(error, "option_name", ""):
        if hasattr(error, "possibilities"):
            return f"no such option: {option}", _option(option, context, path) + more
    elif found := _NO_COMMAND.search(message):
        known = getattr(getattr(context, "command", None), "commands", {})
        return f"unknown command {found[1]!r}", did_you_mean(found[1], known, before=f"{path} ") + more
    elif found := _NO_CHOICE.search(message):
        return message.replace("Value error, ", ""), did_you_mean(found[1], re.findall(r"'(.*?)'", found[2])) + more
    return message.replace("Value error, ", ""), more


def _option(option: str, context: Any, path: str) -> str:
    """What was meant: an option of the command, or of the one before it (`fshipper report --out X show`)."""
    parameters = getattr(getattr(context, "command", None), "params", [])
    known = [name for each in parameters for name in (*each.opts, *each.secondary_opts) if name.startswith("--")]
    if nearest(option, known):
        return did_you_mean(option, known)
    above = getattr(getattr(context, "parent", None), "command", None)
    if above and any(option in each.opts for each in above.params):
        return f"{option} is written before the command: {context.parent.command_path} {option} ... "
    return "" if not parameters else f"{path} --help-all shows all options; "
