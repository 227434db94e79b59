"""Commands made of data classes: each field is an option, the docstring is the help, a function does the work.

What a command runs is imported when it is called: `--help` needs none of it.
"""

import inspect
import pkgutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from shipper.help.description import Command, Key, Page, Values, describe, describe_group, summary_of
from shipper.interrupts import importing

if TYPE_CHECKING:
    from shipper.config import Layer
    from shipper.settings import Settings

__all__ = ["Command", "Key", "Values"]

Url = Annotated[str | None, typer.Option(help="NATS servers, separated by commas (NATS_URL)."), Key("nats.url")]
CONTEXT_HELP = "Connect as a context of the `nats` command: its name, or `selected` (NATS_CONTEXT)."
NatsContext = Annotated[str | None, typer.Option("--context", "--nats-context", help=CONTEXT_HELP), Key("nats.context")]
Subject = Annotated[
    str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT)."), Key("logs.subject")
]
ConfigFile = Annotated[Path | None, typer.Option(help="Configuration file, TOML (SHIPPER_CONFIG).")]
Archive = Annotated[
    Path | None,
    typer.Option("--archive", "--directory", help="The archive (SHIPPER_DIRECTORY)."),
    Key("collector.directory"),
]
State = Annotated[Path | None, typer.Option(help="Directory of the journals (SHIPPER_STATE)."), Key("collector.state")]
LogFormat = Annotated[str | None, typer.Option(help="text or json."), Key("log.format")]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error."), Key("log.level")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="For programs: an object a line.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Continue with lines that arrive.")]
Color = Annotated[
    bool | None, typer.Option("--color/--no-color", help="A colour for each host. [default: on terminals]")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
OpenPage = Annotated[bool, typer.Option("--open", help="Open the pages in a browser of this machine.")]
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


PROGRAM_WORDS = 2
"""Words that name a program: `fshipper partition`."""


class Program(typer.Typer):
    """A program whose commands can be described: each page of its help."""

    def __init__(self, commands: Mapping[str, Command], summary: str, first: Command | None) -> None:
        super().__init__(
            help=summary or None, add_completion=False, rich_markup_mode=None, invoke_without_command=first is not None
        )
        self._commands, self._summary, self._first = commands, summary, first
        self._has_names = first is not None or len(commands) > 1
        if self._has_names:
            self.callback(add_help_option=False)(self._function_of(first))
        for name, command in commands.items():
            self.command(name, add_help_option=False)(self._function_of(command))

    def pages(self, name: str) -> dict[tuple[str, ...], Page]:
        """The pages of the command `name` and of its commands, by the words that are typed."""
        below = self._commands if self._has_names else {}
        every = [("fshipper", name), *(("fshipper", name, each) for each in below)]
        return {words: self._page(words) for words in every}

    def _page(self, words: tuple[str, ...]) -> Page:
        if not self._has_names:
            (only,) = self._commands.values()
            return describe(words, only)
        if len(words) > PROGRAM_WORDS:
            return describe(words, self._commands[words[-1]])
        below = {each: summary_of(inspect.getdoc(one.options) or "") for each, one in self._commands.items()}
        return describe(words, self._first, below) if self._first else describe_group(words, self._summary, below)

    def _show_help(self, context: typer.Context, *, whole: bool) -> None:
        from shipper.help.text import render  # noqa: PLC0415 - only a help needs it

        sys.stdout.write(render(self._page(tuple(context.command_path.split())), whole=whole))
        raise typer.Exit

    def _function_of(self, command: Command | None) -> Callable[..., None]:
        """A function for typer with the fields of the options as its parameters, and --help."""

        def run(**given: Any) -> None:
            del given["help"], given["help_all"]
            if command is None:
                return
            with importing():
                work = pkgutil.resolve_name(command.work)
            if code := work(command.options(**given)):
                raise typer.Exit(code)

        def show(context: typer.Context, value: bool) -> None:
            if value:
                self._show_help(context, whole=False)

        def show_all(context: typer.Context, value: bool) -> None:
            if value:
                self._show_help(context, whole=True)

        helps = {
            "help": Annotated[bool, typer.Option("--help", is_eager=True, callback=show)],
            "help_all": Annotated[bool, typer.Option("--help-all", is_eager=True, callback=show_all)],
        }
        fields = list(inspect.signature(command.options).parameters.values()) if command else []
        keyword = inspect.Parameter.KEYWORD_ONLY
        flags = [inspect.Parameter(name, keyword, default=False, annotation=each) for name, each in helps.items()]
        run.__signature__ = inspect.Signature([*fields, *flags])  # type: ignore[attr-defined]
        run.__annotations__ = helps | (get_type_hints(command.options, include_extras=True) if command else {})
        return run


def program_of(commands: Mapping[str, Command], summary: str = "", *, first: Command | None = None) -> Program:
    """The commands of one program by their names; with one command its name is not typed.

    `first` is the command without a name. It is called before any other command, too.
    """
    return Program(commands, summary, first)
