"""Describes a command from the class of its options: arguments, options, values, settings, examples, exit codes."""

import enum
import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo, OptionInfo

USUAL = 8
"""Number of options that the short help shows of a command that names none itself."""
FEW = 10
"""Maximum number of options of which the short help shows all."""


class Command(NamedTuple):
    """One command: the class of its options, the function that takes them, and what its help shows.

    `work`: `package.module:function`. `examples`: as they are typed, without `fshipper`. `usual`: names of the options
    in the short help. `exits`: its own exit codes, `2 gaps, 69 no such day`.
    """

    options: type
    work: str
    examples: Sequence[str] = ()
    usual: str = ""
    exits: str = ""


class Key(NamedTuple):
    """Marks an option that changes a setting: its dotted name."""

    name: str


class Values(enum.Enum):
    """What a shell can complete a value with."""

    TEXT = "text"  #: nothing is known
    FILE = "file"
    DIRECTORY = "directory"
    HOST = "host"  #: a host of the archive
    ARCHIVED = "archived"  #: a file of the archive, by its path on the host
    CONTEXT = "context"  #: a context of the `nats` command
    CHOICE = "choice"


class Argument(NamedTuple):
    """One argument without a name before it."""

    name: str
    help: str
    is_optional: bool
    repeats: bool
    values: Values
    choices: tuple[str, ...]


class Option(NamedTuple):
    """One option. `shown`: the placeholder of its value; empty: it takes none. `negative`: `--no-x`, or empty."""

    names: tuple[str, ...]
    negative: str
    shown: str
    help: str
    default: str
    setting: str
    variable: str
    repeats: bool
    values: Values
    choices: tuple[str, ...]

    @property
    def name(self) -> str:
        """The first long name."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])


class Page(NamedTuple):
    """Everything that is known of one command. `words`: `fshipper`, `partition`, `plan`."""

    words: tuple[str, ...]
    text: str
    arguments: tuple[Argument, ...]
    options: tuple[Option, ...]
    usual: tuple[Option, ...]
    examples: tuple[str, ...]
    exits: str
    commands: Mapping[str, str]  #: names of its commands, with their summaries

    @property
    def name(self) -> str:
        """As it is typed."""
        return " ".join(self.words)

    @property
    def summary(self) -> str:
        """The first sentence, without a full stop."""
        return summary_of(self.text)


_PLACEHOLDERS = {
    "DIR": "directory archive state store data out dir etc report reports root bin-dir link-roots",
    "FILE": "config file accounts settings template to-file tls-cert tls-key tls-ca server-config output",
    "TIME": "since until",
    "DAY": "date",
    "DURATION": "max-delay poll partial-after ignore-older delete-archived timeout within every dead-after stuck-after"
    " for",
    "SIZE": "block window max-bytes rate",
    "HOST": "host forget allowed-host",
    "HOST:PORT": "listen",
    "NAME": "context nats-context name",
    "REGEX": "grep match keep-lines drop-lines",
    "GLOB": "exclude",
    "URL": "url",
    "ZONE": "timezone",
    "STREAM": "stream",
    "NAME=VALUE": "label",
}
SHOWN = {name: shown for shown, names in _PLACEHOLDERS.items() for name in names.split()}
"""The placeholder of a value, by the name of its option."""

_DIRECTORIES = frozenset(name for name, shown in SHOWN.items() if shown == "DIR") | {"DIR"}
_FILES = frozenset(name for name, shown in SHOWN.items() if shown == "FILE") | {"FILE", "PATH", "paths", "more"}


def summary_of(text: str) -> str:
    """The first sentence of a description."""
    return " ".join(text.split("\n\n", maxsplit=1)[0].split()).partition(". ")[0].rstrip(".")


def describe(words: Sequence[str], command: Command, commands: Mapping[str, str] | None = None) -> Page:
    """The page of a command that is a class of options."""
    parameters = list(_parameters(command.options))
    options = tuple(sorted((one for one in parameters if isinstance(one, Option)), key=_place))
    return Page(
        tuple(words),
        inspect.getdoc(command.options) or "",
        tuple(one for one in parameters if isinstance(one, Argument)),
        options,
        _usual(options, command.usual.split()),
        tuple(command.examples),
        command.exits,
        commands or {},
    )


def describe_group(words: Sequence[str], summary: str, commands: Mapping[str, str]) -> Page:
    """The page of a command that has commands only."""
    return Page(tuple(words), summary, (), (), (), (), "", commands)


LAST = ("url", "context", "config", "subject", "log-format", "log-level")
"""What the help of every command shows last."""


def _place(option: Option) -> int:
    name = option.name.removeprefix("--")
    return LAST.index(name) if name in LAST else -1


def _usual(options: tuple[Option, ...], names: Sequence[str]) -> tuple[Option, ...]:
    if not names:
        return options if len(options) <= FEW else options[:USUAL]
    by_name = {option.name.removeprefix("--"): option for option in options}
    return tuple(by_name[name] for name in names)


def _parameters(options: type) -> Iterator[Argument | Option]:
    hints = get_type_hints(options, include_extras=True)
    for name, parameter in inspect.signature(options).parameters.items():
        if get_origin(hints[name]) is Annotated:
            kind, *marks = get_args(hints[name])
            info = next(one for one in marks if isinstance(one, ArgumentInfo | OptionInfo))
            key = next((one.name for one in marks if isinstance(one, Key)), "")
            values = next((one for one in marks if isinstance(one, Values)), None)
            describing = _argument if isinstance(info, ArgumentInfo) else _option
            yield describing(name, _Kind.of(kind), info, parameter.default, key, values)


class _Kind(NamedTuple):
    """The type of a value: `list[Path] | None` is a Path that repeats."""

    plain: Any
    repeats: bool
    choices: tuple[str, ...]

    @classmethod
    def of(cls, kind: Any) -> "_Kind":
        if get_origin(kind) in {Union, types.UnionType}:
            kind = next(one for one in get_args(kind) if one is not types.NoneType)
        repeats = get_origin(kind) is list
        plain = get_args(kind)[0] if repeats else kind
        if get_origin(plain) is Literal:
            return cls(str, repeats, tuple(get_args(plain)))
        is_enum = isinstance(plain, type) and issubclass(plain, enum.Enum)
        return cls(plain, repeats, tuple(str(one.value) for one in plain) if is_enum else ())


def _argument(name: str, kind: _Kind, info: Any, default: Any, _key: str, values: Values | None) -> Argument:
    shown = (info.metavar or name.upper()).replace("[", "").replace("]", "").replace("...", "").replace(":PORT", "")
    is_optional = default is not inspect.Parameter.empty
    return Argument(
        shown,
        info.help or "",
        is_optional,
        kind.repeats,
        values or _values_of(name, shown, kind),
        kind.choices,
    )


def _option(name: str, kind: _Kind, info: Any, default: Any, key: str, values: Values | None) -> Option:
    long = f"--{name.replace('_', '-')}"
    first = () if info.default is ... else (info.default,)  # in Annotated, typer takes the first name for a default
    given: tuple[str, ...] = (*first, *(info.param_decls or ()))
    given = given or ((f"{long}/--no-{long[2:]}",) if kind.plain is bool else (long,))
    names = tuple(one.partition("/")[0] for one in given)
    plain = next((one for one in names if one.startswith("--")), names[0]).removeprefix("--")
    of_archive = "PATH" if values is Values.ARCHIVED else ""
    by_name = "" if kind.plain in {int, float} else SHOWN.get(plain)  # --context of search is a number of lines
    named = info.metavar or "|".join(kind.choices) or of_archive or by_name or _shown(kind)
    shown = "" if kind.plain is bool else named
    return Option(
        names,
        next((one.partition("/")[2] for one in given if "/" in one), ""),
        shown,
        info.help or "",
        "" if info.show_default is False else _default(default),
        key,
        str(info.envvar or ""),
        kind.repeats,
        values or _values_of(plain, shown, kind),
        kind.choices,
    )


def _shown(kind: _Kind) -> str:
    return {int: "N", float: "N", Path: "PATH"}.get(kind.plain, "TEXT")


def _values_of(name: str, shown: str, kind: _Kind) -> Values:
    """What a value is, by the name of the option or the placeholder."""
    if kind.choices:
        return Values.CHOICE
    if name in _DIRECTORIES or shown in _DIRECTORIES:
        return Values.DIRECTORY
    if name in _FILES or shown in _FILES or kind.plain is Path:
        return Values.FILE
    if name in {"context", "nats-context"} and kind.plain is str:
        return Values.CONTEXT
    return Values.HOST if name in {"host", "hosts", "forget"} or shown == "HOST" else Values.TEXT


def _default(value: Any) -> str:
    if value is None or value is False or value is True or value in ("", (), inspect.Parameter.empty):
        return ""
    return str(getattr(value, "value", value))
