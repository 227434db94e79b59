"""Renders the help of a command for a terminal: the usual options, or all of them in groups."""

import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from shipper.help.description import Argument, Option, Page

NARROWEST, WIDEST = 40, 100
"""Columns of the help, whatever the terminal has."""
LEFT = 30
"""Maximum columns for the name of an option before its text begins on the next line."""

EXITS = "1 other error, 64 wrong usage, 69 no server or no such data, 78 wrong settings, 130 Ctrl-C"
"""Exit codes that every command has."""

GROUPS: Mapping[str, str] = {
    "Lines and times": (
        "since until by late timezone grep invert-match ignore-case fixed-strings case-sensitive word-regexp records"
        " after-context before-context newest-first follow lines limit keep-lines drop-lines date"
    ),
    "Output": "json color raw time prefix count histogram progress explain format top output",
    "Inputs": "syslog syslog-sender journald charset name redact label encoding",
    "Limits and intervals": (
        "block window max-delay poll no-watch partial-after ignore-older delete-archived open-files rate jobs max-bytes"
        " replicas template"
    ),
    "Before it acts": (
        "dry-run show-redacted yes force again allow-data-loss recreate-consumers prune overwrite purge replace"
    ),
    "Server and settings": (
        "url context nats-context config subject partitions state archive log-format log-level listen"
    ),
}
"""The groups of options in the whole help, by their names; others are in the first group."""
FIRST = "Options"


def usage(page: Page) -> str:
    """The line of the usage."""
    parts = [page.name]
    if page.options:
        parts.append("[OPTIONS]")
    if page.commands:
        parts.append("[COMMAND]" if page.options else "COMMAND")
    return " ".join([*parts, *map(placeholder, page.arguments)])


def placeholder(argument: Argument) -> str:
    """`HOST`, `[HOST]`, `HOST...` or `[HOST...]`."""
    shown = argument.name + ("..." if argument.repeats else "")
    return f"[{shown}]" if argument.is_optional else shown


def render(page: Page, *, whole: bool) -> str:
    """The help of a command. `whole`: all options, in groups."""
    width = min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
    parts = ["\n".join(textwrap.wrap(f"Usage: {usage(page)}", width, subsequent_indent="    ")) + "\n"]
    parts += [textwrap.indent(textwrap.fill(one, width - 2), "  ") + "\n" for one in paragraphs(page.text)]
    if page.examples:
        parts.append(_section("Examples", [f"  fshipper {each}" for each in page.examples]))
    if page.arguments:
        rows = [(placeholder(each), each.help) for each in page.arguments if each.help]
        parts.append(_section("Arguments", _table(rows, width)) if rows else "")
    if page.commands:
        parts.append(_section("Commands", _table([*page.commands.items()], width)))
    left = len(page.options) - len(page.usual)
    groups = grouped(page.options) if whole and left else {FIRST: page.usual}
    for title, options in groups.items() if page.options else ():
        parts.append(_section(title, _table([(names(each), meaning(each)) for each in options], width)))
    if left and not whole:
        parts.append(f"{page.name} --help-all shows {left} more options.\n")
    if not page.commands or page.options:
        parts.append(textwrap.fill(f"Exit codes: {exits(page)}.", width, subsequent_indent="  ") + "\n")
    return "\n".join(filter(None, parts))


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a description, each on one line."""
    return (" ".join(each.split()) for each in text.split("\n\n") if each.strip())


def grouped(options: Sequence[Option]) -> dict[str, list[Option]]:
    """Options by the titles of their groups, in the order of the groups."""
    found: dict[str, list[Option]] = {FIRST: [], **{title: [] for title in GROUPS}}
    for option in options:
        name = option.name.removeprefix("--")
        found[next((title for title, named in GROUPS.items() if name in named.split()), FIRST)].append(option)
    return {title: chosen for title, chosen in found.items() if chosen}


def names(option: Option) -> str:
    """`-f, --file FILE`."""
    short_first = sorted(option.names, key=lambda name: name.startswith("--"))
    shown = ", ".join([*short_first, option.negative] if option.negative else short_first)
    return f"{shown} {option.shown}".rstrip()


def meaning(option: Option) -> str:
    """Its help, its default, and where else it can be set."""
    text = option.help
    if option.repeats and "repeat" not in text:
        text = f"{text.rstrip('.')}; may repeat."
    if option.default and "[default" not in text:
        text += f" [default: {option.default}]"
    also = [f"setting {option.setting}"] if option.setting else []
    also += [f"variable {option.variable}"] if option.variable else []
    return f"{text} [{', '.join(also)}]" if also else text


def exits(page: Page) -> str:
    """All exit codes of a command in one line."""
    own = page.exits if re.match(r"0\b", page.exits) else f"0 success{', ' if page.exits else ''}{page.exits}"
    has_own = set(re.findall(r"\b(\d+) ", own))
    common = [each for each in EXITS.split(", ") if each.split()[0] not in has_own]
    return ", ".join([own, *common])


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *lines]) + "\n"


def _table(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Two columns; a left part that is too long has a line of its own."""
    left = min(max((len(name) for name, _ in rows), default=0), LEFT)
    lines: list[str] = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(width - left - 4, 20)) or [""]
        if len(name) > left:
            lines.append(f"  {name}")
        else:
            lines.append(f"  {name:<{left}}  {wrapped.pop(0)}".rstrip())
        lines += [f"  {'':<{left}}  {line}" for line in wrapped]
    return lines
