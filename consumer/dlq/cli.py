"""`fshipper dlq ls|show|requeue|drop`: messages that no collector could apply."""

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from consumer.dlq import display, message
from consumer.dlq.message import Advisory, Letter, LetterFilter
from consumer.dlq.store import DeadLetterStore, open_dead_letters
from shipper.config import load
from shipper.errors import StreamMissing, UsageError
from shipper.settings import Settings

PAGE = 500  # rows of a table that are laid out together
_TOKENS = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")
_T = TypeVar("_T")

app = typer.Typer(help="Show, requeue or drop dead letters.", add_completion=False, rich_markup_mode=None)

Numbers = Annotated[list[int] | None, typer.Argument(help="Numbers of dead letters, as `ls` shows them.")]
All = Annotated[bool, typer.Option("--all", help="All of them, or all that the filters choose.")]
Host = Annotated[str, typer.Option(help="Only of this host.")]
Stream = Annotated[str, typer.Option(help="Only from this stream, as LOGS_0.")]
Reason = Annotated[str, typer.Option(help="Only where the reason holds this text.")]
Url = Annotated[str | None, typer.Option(help="NATS servers, separated by commas (NATS_URL).")]
Config = Annotated[Path | None, typer.Option(help="Configuration file (SHIPPER_CONFIG).")]
Subject = Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT).")]


@app.command()
def ls(
    *,
    host: Host = "",
    stream: Stream = "",
    reason: Reason = "",
    limit: Annotated[int, typer.Option(min=0, help="At most so many, the newest; 0: all.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: an object a line.")] = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """List dead letters, newest first, and what the server gave up delivering."""
    wanted = _wanted(host, stream, reason)

    async def work(at: DeadLetterStore) -> None:
        await (_list_json if as_json else _list)(at, wanted, limit)

    _at_desk(_settings(url, config, subject), work)


@app.command(name="show")
def show_one(
    *,
    number: Annotated[int, typer.Argument(help="Number of the dead letter.")],
    raw: Annotated[bool, typer.Option("--raw", help="The payload's bytes and nothing else.")] = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Show one dead letter: the reason, its headers, the beginning of its payload."""
    found = _at_desk(_settings(url, config, subject), lambda at: at.find(number))
    if raw:
        sys.stdout.buffer.write(found.payload)
    else:
        _write(display.in_full(*found))


@app.command()
def requeue(
    *,
    numbers: Numbers = None,
    everything: All = False,
    host: Host = "",
    stream: Stream = "",
    reason: Reason = "",
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Send their text to the collector, for a `.recovered` file next to the original. Repeating it is safe."""
    wanted, chosen = _wanted(host, stream, reason), _chosen(numbers, everything, host + stream + reason)

    async def work(at: DeadLetterStore) -> None:
        await at.requeue(chosen or [each.sequence async for each in at.oldest(wanted)], _say_requeued)

    _at_desk(_settings(url, config, subject), work)


@app.command()
def drop(
    *,
    numbers: Numbers = None,
    everything: All = False,
    host: Host = "",
    stream: Stream = "",
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not prompt.")] = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Remove dead letters for good; what was dropped is written to standard error."""
    wanted, chosen = _wanted(host, stream, reason), _chosen(numbers, everything, host + stream + reason)
    settings = _settings(url, config, subject)

    async def found(at: DeadLetterStore) -> list[int]:
        return [each.sequence async for each in at.oldest(wanted)]

    sequences = chosen or _at_desk(settings, found)
    if sequences:
        _confirm(len(sequences), yes=yes)
        _at_desk(settings, lambda at: _drop_all(at, sequences))


async def _drop_all(at: DeadLetterStore, sequences: list[int]) -> None:
    for sequence in sequences:
        sys.stderr.write(display.dropped_line(await at.drop(sequence)) + "\n")


async def _list(at: DeadLetterStore, wanted: LetterFilter, limit: int) -> None:
    page: list[Letter] = []
    found = 0
    async with contextlib.aclosing(at.newest(wanted, limit)) as letters:
        async for each in letters:
            page.append(each)
            found += 1
            if len(page) == PAGE:
                _write(display.table(page))
                page = []
    if page:
        _write(display.table(page))
    elif not found:
        sys.stderr.write("no dead letters" + (" like that" if wanted != LetterFilter() else "") + "\n")
    try:
        async for told in _advisories(at, wanted, limit):
            _write([display.advisory_line(told)])
    except StreamMissing as error:
        sys.stderr.write(f"hint: {error}; fshipper partition apply creates it\n")


async def _list_json(at: DeadLetterStore, wanted: LetterFilter, limit: int) -> None:
    async with contextlib.aclosing(at.newest(wanted, limit)) as letters:
        async for each in letters:
            _write([display.json_line(message.letter_json(each))])
    with contextlib.suppress(StreamMissing):
        async for told in _advisories(at, wanted, limit):
            _write([display.json_line(message.advisory_json(told))])


async def _advisories(at: DeadLetterStore, wanted: LetterFilter, limit: int) -> AsyncGenerator[Advisory]:
    """The advisories that match. They contain only the stream: a filter by host or reason matches none."""
    if not wanted.host and not wanted.reason:
        async with contextlib.aclosing(at.advisories(wanted.stream, limit)) as found:
            async for each in found:
                yield each


def _say_requeued(each: Letter, octets: int) -> None:
    _write([display.requeued_line(each, octets)])
    sys.stdout.flush()


def _write(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _confirm(count: int, *, yes: bool) -> None:
    """Prompt before the only copy of bytes is removed. Raises UsageError: no terminal, or the answer is no."""
    if yes:
        return
    what = f"{count} dead letter{'s' if count > 1 else ''}"
    if not sys.stdin.isatty():
        raise UsageError(
            f"this removes {what} for good, and there is no terminal for a prompt",
            hint="--yes removes without a prompt",
        )
    if not typer.confirm(f"Remove {what} for good?"):
        raise UsageError("nothing was removed")


def _chosen(numbers: list[int] | None, everything: bool, filters: str) -> list[int]:
    """The numbers; none where `--all` is given. Raises UsageError: both, or neither."""
    if bool(numbers) == everything:
        raise UsageError("name the numbers of dead letters, or --all", hint="fshipper dlq ls shows the numbers")
    if numbers and filters:
        raise UsageError("--host, --stream and --reason go with --all")
    return numbers or []


def _wanted(host: str, stream: str, reason: str) -> LetterFilter:
    for option, value in (("--host", host), ("--stream", stream)):
        if value and not _TOKENS.fullmatch(value):
            raise UsageError(f"{option} {value!r} is no name that a dead letter can have")
    if "." in stream:
        raise UsageError(f"--stream {stream!r} is no name of a stream")
    return LetterFilter(host=host, stream=stream, reason=reason)


def _settings(url: str | None, config: Path | None, subject: str | None) -> Settings:
    return load({"nats.url": url, "logs.subject": subject}, config=config)


def _at_desk(settings: Settings, work: Callable[[DeadLetterStore], Awaitable[_T]]) -> _T:
    async def within() -> _T:
        async with open_dead_letters(settings) as at:
            return await work(at)

    return asyncio.run(within())
