"""What `fshipper dlq` does: lists, shows, sends again and removes messages that no collector could apply."""

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from consumer.dlq import display, message
from consumer.dlq.message import Advisory, Letter, LetterFilter
from consumer.dlq.store import DeadLetterStore, open_dead_letters
from shipper.config import load
from shipper.errors import StreamMissing, UsageError
from shipper.settings import Settings

PAGE = 500  # rows of a table that are laid out together
_TOKENS = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")
_T = TypeVar("_T")


def ls(settings: Settings, wanted: LetterFilter, *, limit: int, as_json: bool) -> None:
    """Write the newest dead letters, and what the server gave up delivering. `limit` 0: all."""

    async def work(at: DeadLetterStore) -> None:
        await (_list_json if as_json else _list)(at, wanted, limit)

    _at_desk(settings, work)


def show(settings: Settings, number: int, *, raw: bool) -> None:
    """Write one dead letter; `raw`: its payload and nothing else."""
    found = _at_desk(settings, lambda at: at.find(number))
    if raw:
        sys.stdout.buffer.write(found.payload)
    else:
        _write(display.in_full(*found))


def requeue(settings: Settings, wanted: LetterFilter, chosen: Sequence[int]) -> None:
    """Send the letters `chosen`, or all that are `wanted`, to the collector."""

    async def work(at: DeadLetterStore) -> None:
        await at.requeue(chosen or [each.sequence async for each in at.oldest(wanted)], _say_requeued)

    _at_desk(settings, work)


def drop(settings: Settings, wanted: LetterFilter, chosen: Sequence[int], confirm: Callable[[int], None]) -> None:
    """Remove the letters `chosen`, or all that are `wanted`; `confirm` gets their number first, and may raise."""

    async def found(at: DeadLetterStore) -> list[int]:
        return [each.sequence async for each in at.oldest(wanted)]

    sequences = chosen or _at_desk(settings, found)
    if sequences:
        confirm(len(sequences))
        _at_desk(settings, lambda at: _drop_all(at, sequences))


async def _drop_all(at: DeadLetterStore, sequences: Sequence[int]) -> None:
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


def filter_of(host: str, stream: str, reason: str) -> LetterFilter:
    """The filter of these options. Raises UsageError."""
    for option, value in (("--host", host), ("--stream", stream)):
        if value and not _TOKENS.fullmatch(value):
            raise UsageError(f"{option} {value!r} is no name that a dead letter can have")
    if "." in stream:
        raise UsageError(f"--stream {stream!r} is no name of a stream")
    return LetterFilter(host=host, stream=stream, reason=reason)


def settings_of(url: str | None, config: Path | None, subject: str | None) -> Settings:
    """The settings with these options over them. Raises ConfigError."""
    return load({"nats.url": url, "logs.subject": subject}, config=config)


def _at_desk(settings: Settings, work: Callable[[DeadLetterStore], Awaitable[_T]]) -> _T:
    async def within() -> _T:
        async with open_dead_letters(settings) as at:
            return await work(at)

    return asyncio.run(within())
