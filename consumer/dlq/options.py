"""The options of the commands of `fshipper dlq`: a class a command, whose docstring is its help."""

from dataclasses import dataclass
from typing import Annotated

import typer

from shipper.commands import AsJson, AsJsonLines, ConfigFile, NatsContext, Subject, Url, Yes

Numbers = Annotated[list[int] | None, typer.Argument(help="Numbers of dead letters, as `ls` shows them.")]
All = Annotated[bool, typer.Option("--all", help="All of them, or all that the filters choose.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterOptions:
    """What every command has."""

    url: Url = None
    nats_context: NatsContext = None
    config: ConfigFile = None
    subject: Subject = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions(DeadLetterOptions):
    """Which dead letters are meant."""

    host: Annotated[str, typer.Option(help="Only of this host.")] = ""
    stream: Annotated[str, typer.Option(help="Only from this stream, as LOGS_0.")] = ""
    reason: Annotated[str, typer.Option(help="Only where the reason holds this text.")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions(FilterOptions):
    """List dead letters, newest first, and what the server gave up delivering."""

    limit: Annotated[int, typer.Option(min=0, help="At most so many, the newest; 0: all.")] = 50
    as_json: AsJsonLines = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions(DeadLetterOptions):
    """Show one dead letter: the reason, its headers, the beginning of its payload."""

    number: Annotated[int, typer.Argument(help="Number of the dead letter.")]
    raw: Annotated[bool, typer.Option("--raw", help="The payload's bytes and nothing else.")] = False
    as_json: AsJson = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueOptions(FilterOptions):
    """Send their text to the collector, for a `.recovered` file next to the original. Repeating it is safe."""

    numbers: Numbers = None
    everything: All = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DropOptions(RequeueOptions):
    """Remove dead letters for good; what was dropped is written to standard error."""

    yes: Yes = False
