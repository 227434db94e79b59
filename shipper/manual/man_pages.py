"""Renders the pages of all commands, and the settings, as manual pages (man(7))."""

import datetime as dt
import importlib.metadata
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence

from shipper.help import text
from shipper.help.description import Option, Page
from shipper.manual.settings_table import Section, sections

_CODE = re.compile(r"`([^`]+)`")


def commands(pages: Mapping[tuple[str, ...], Page]) -> dict[str, str]:
    """The text of each manual page by the name of its file: `fshipper-partition-plan.1`."""
    return {f"{_file(words)}.1": _command(page, pages) for words, page in pages.items()}


SETTINGS = (
    "Settings are taken from options, then variables, then the file that --config or SHIPPER_CONFIG names, then"
    " defaults. An unknown key is an error. `fshipper validate` shows each value and its origin. Times are seconds, or"
    " 5s, 2h, 7d. Sizes are bytes, or 256KB, 16MiB, 50GB."
)
EXAMPLE = ("[nats]", 'url = ["nats://nats1.example.net:4222"]', "", "[producer]", 'files = ["/var/log/nginx/*.log"]')


def settings() -> str:
    """The text of fshipper.toml(5)."""
    parts = [
        _title("fshipper.toml", 5, "File Formats"),
        _section("NAME", "fshipper.toml \\- settings of fshipper"),
        _section("DESCRIPTION", _prose(SETTINGS)),
        _section("EXAMPLES", "\n".join([".nf", *map(_plain, EXAMPLE), ".fi"])),
    ]
    for section in sections():
        parts += [_section(f"[{section.name}]"), _prose(section.text), *_rows(section)]
    return "\n".join([*parts, _section("SEE ALSO"), _reference("fshipper", 1)]) + "\n"


def _rows(section: Section) -> Iterator[str]:
    for row in section.rows:
        yield f".TP\n\\fB{_plain(row.key)}\\fR" + (f", {_plain(row.variable)}" if row.variable else "")
        yield _prose(row.meaning + (f" [default: {row.default}]" if row.default else ""))


def _command(page: Page, pages: Mapping[tuple[str, ...], Page]) -> str:
    name = _file(page.words)
    parts = [
        _title(name, 1, "User Commands"),
        _section("NAME", f"{_plain(name)} \\- {_plain(_without_code(page.summary))}"),
        _section(
            "SYNOPSIS", f"\\fB{_plain(page.name)}\\fR {_plain(text.usage(page).removeprefix(page.name))}".rstrip()
        ),
        _section("DESCRIPTION"),
        "\n.PP\n".join(_prose(each) for each in text.paragraphs(page.text)),
    ]
    if page.arguments:
        parts += [_section("ARGUMENTS"), *(_item(text.placeholder(each), each.help) for each in page.arguments)]
    if page.commands:
        parts += [_section("COMMANDS"), *(_item(each, about) for each, about in page.commands.items())]
    if page.options:
        parts += [_section("OPTIONS"), *_options(page.options)]
    parts += [_section("EXIT STATUS"), *(_item(*_exit(each)) for each in _exits(page))]
    if page.examples:
        lines = [_plain(f"fshipper {each}") for each in page.examples]
        parts += [_section("EXAMPLES"), ".nf", *lines, ".fi"]
    related = [_file(words) for words in pages if words[:-1] == page.words or words == page.words[:-1]]
    references = [*(_reference(each, 1) for each in related), _reference("fshipper.toml", 5)]
    return "\n".join([*parts, _section("SEE ALSO"), " ,\n".join(references)]) + "\n"


def _options(options: Sequence[Option]) -> Iterator[str]:
    groups = text.grouped(options)
    for title, chosen in groups.items():
        if len(groups) > 1:
            yield f".SS {_plain(title)}"
        for option in chosen:
            yield _item(text.names(option), text.meaning(option))


def _exits(page: Page) -> list[str]:
    """`0 success`, `64 wrong usage`: a text without a number belongs to the one before it."""
    found: list[str] = []
    for each in text.exits(page).split(", "):
        if each[:1].isdigit() or not found:
            found.append(each)
        else:
            found[-1] += f", {each}"
    return found


def _exit(each: str) -> tuple[str, str]:
    code, _, why = each.partition(" ")
    return code, why


def _file(words: Sequence[str]) -> str:
    return "-".join(words)


def _title(name: str, section: int, manual: str) -> str:
    day = dt.datetime.fromtimestamp(float(os.environ.get("SOURCE_DATE_EPOCH") or time.time()), dt.UTC).date()
    return (
        f'.TH "{_plain(name.upper())}" {section} "{day}" "fshipper {importlib.metadata.version("fshipper")}" "{manual}"'
    )


def _section(title: str, content: str = "") -> str:
    return f".SH {_plain(title)}" + (f"\n{content}" if content else "")


def _item(name: str, about: str) -> str:
    return f".TP\n\\fB{_plain(name)}\\fR\n{_prose(about)}"


def _reference(name: str, section: int) -> str:
    return f".BR {_plain(name)} ({section})"


def _prose(about: str) -> str:
    """A text on one line; what is in backquotes is bold."""
    parts = enumerate(map(_escaped, _CODE.split(" ".join(about.split()))))
    return _guarded("".join(f"\\fB{each}\\fR" if number % 2 else each for number, each in parts))


def _plain(about: str) -> str:
    return _guarded(_escaped(about))


def _escaped(about: str) -> str:
    """Backslashes, hyphens, and quotes that roff would make typographic."""
    signs = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}
    return "".join(signs.get(sign, sign) for sign in about)


def _guarded(line: str) -> str:
    """A line that begins with a full stop is text, not a request."""
    return f"\\&{line}" if line[:1] in {".", "'"} else line


def _without_code(about: str) -> str:
    return about.replace("`", "")
