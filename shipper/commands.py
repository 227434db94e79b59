"""Commands made of data classes: each field is an option, the docstring is the help, a function does the work.

What a command runs is imported when it is called: `--help` needs none of it.
"""

import inspect
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_type_hints

import typer

from shipper.interrupts import importing

if TYPE_CHECKING:
    from shipper.config import Layer
    from shipper.settings import Settings

LAST = ("url", "config", "subject", "log_format", "log_level")
"""What the help of every command shows last."""


class Command(NamedTuple):
    """One command: the class of its options, and the function that takes them, as `package.module:function`."""

    options: type
    work: str


class Key(NamedTuple):
    """Marks an option that changes a setting: its dotted name."""

    name: str


Url = Annotated[str | None, typer.Option(help="NATS servers, separated by commas (NATS_URL)."), Key("nats.url")]
Subject = Annotated[
    str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT)."), Key("logs.subject")
]
ConfigFile = Annotated[Path | None, typer.Option(help="Configuration file, TOML (SHIPPER_CONFIG).")]
State = Annotated[Path | None, typer.Option(help="Directory of the journals (SHIPPER_STATE)."), Key("collector.state")]
LogFormat = Annotated[str | None, typer.Option(help="text or json."), Key("log.format")]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error."), Key("log.level")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not prompt.")]


def settings_of(options: Any) -> "Settings":
    """The settings, with the options over them that have a `Key`. Raises ConfigError."""
    from shipper.config import load  # noqa: PLC0415 - `--help` needs none of it

    return load(layer_of(options), config=options.config)


def layer_of(options: Any) -> "Layer":
    """The settings that options change, by their dotted names; None: not given."""
    hints = get_type_hints(type(options), include_extras=True)
    marked = {name: key.name for name, hint in hints.items() for key in get_args(hint)[1:] if isinstance(key, Key)}
    values = {key: getattr(options, name) for name, key in marked.items()}
    return {key: (tuple(value) or None) if isinstance(value, list) else value for key, value in values.items()}


def program_of(commands: Mapping[str, Command], summary: str = "", *, first: Command | None = None) -> typer.Typer:
    """The commands of one program by their names; with one command its name is not typed.

    `first` is the command without a name. It is called before any other command, too.
    """
    app = typer.Typer(
        help=summary or None, add_completion=False, rich_markup_mode=None, invoke_without_command=first is not None
    )
    if first:
        app.callback()(_function_of(first))
    for name, command in commands.items():
        app.command(name)(_function_of(command))
    return app


def _function_of(command: Command) -> Callable[..., None]:
    """A function for typer with the fields of the options as its parameters."""

    def run(**given: Any) -> None:
        with importing():
            work = pkgutil.resolve_name(command.work)
        if code := work(command.options(**given)):
            raise typer.Exit(code)

    fields = inspect.signature(command.options).parameters.values()
    ordered = sorted(fields, key=lambda field: LAST.index(field.name) if field.name in LAST else -1)
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = get_type_hints(command.options, include_extras=True)
    run.__doc__ = inspect.getdoc(command.options)
    return run
