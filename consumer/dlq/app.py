"""What `fshipper dlq` does: lists, shows, sends again and removes messages that no collector could apply."""

import asyncio
import base64
import contextlib
import datetime as dt
import json
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TypeVar

from rich.text import Text

from consumer.dlq.options import DropOptions, FilterOptions, ListOptions, RequeueOptions, ShowOptions
from consumer.dlq.store import (
    VERSION,
    Advisory,
    DeadLetterStore,
    Letter,
    LetterFilter,
    dump,
    letter_json,
    open_dead_letters,
    printable,
)
from shipper.commands import settings_of
from shipper.errors import StreamMissing, UsageError
from shipper.prompts import confirm
from shipper.settings import Settings
from shipper.table_printer import fitted, standard_output
from shipper.units import counted, format_bytes

PAGE = 500  # rows of a table that are laid out together
_TOKENS = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")
_T = TypeVar("_T")


def ls(options: ListOptions) -> None:
    """Write the newest dead letters, and what the server gave up delivering."""
    wanted, write = _filter_of(options), _list_json if options.as_json else _list
    _at_desk(settings_of(options), lambda at: write(at, wanted, options.limit))


def show(options: ShowOptions) -> None:
    """Write one dead letter, or its payload and nothing else."""
    found = _at_desk(settings_of(options), lambda at: at.find(options.number))
    if options.raw:
        sys.stdout.buffer.write(found.payload)
    elif options.as_json:
        payload = base64.b64encode(found.payload).decode()
        more = {"headers": dict(found.letter.headers), "payload_base64": payload}
        _write([json.dumps(letter_json(found.letter) | more)])
    else:
        _write(in_full(*found))


def requeue(options: RequeueOptions) -> None:
    """Send the chosen letters to the collector."""
    wanted, chosen = _filter_of(options), _chosen(options)

    async def work(at: DeadLetterStore) -> None:
        async for letter, octets in at.requeue(chosen or await at.numbers(wanted)):
            _write([_requeued_line(letter, octets)])
            sys.stdout.flush()

    _at_desk(settings_of(options), work)


def drop(options: DropOptions) -> None:
    """Remove the chosen letters. Raises UsageError: there is no terminal for a prompt, or the answer is no."""
    wanted, chosen, settings = _filter_of(options), _chosen(options), settings_of(options)
    sequences = chosen or _at_desk(settings, lambda at: at.numbers(wanted))
    if sequences:
        what = counted(len(sequences), "dead letter")
        confirm(
            yes=options.yes,
            question=f"Remove {what} for good?",
            what=f"this removes {what} for good",
            hint="--yes removes without a prompt",
            unchanged="nothing was removed",
        )

        async def work(at: DeadLetterStore) -> None:
            for sequence in sequences:
                letter = await at.drop(sequence)
                origin = f"{when(letter.time_ns)} {printable(letter.host)} {letter.stream} {letter.bytes} bytes"
                sys.stderr.write(f"dropped {sequence}: {origin}: {printable(letter.reason)}\n")

        _at_desk(settings, work)


def _chosen(options: RequeueOptions) -> list[int]:
    """The numbers, none where `--all` is given. Raises UsageError: both, or neither."""
    if bool(options.numbers) == options.everything:
        raise UsageError("name the numbers of dead letters, or --all", hint="fshipper dlq ls shows the numbers")
    if options.numbers and (options.host or options.stream or options.reason):
        raise UsageError("--host, --stream and --reason go with --all")
    return options.numbers or []


async def _list(at: DeadLetterStore, wanted: LetterFilter, limit: int) -> None:
    page: list[Letter] = []
    found = 0
    async with contextlib.aclosing(at.newest(wanted, limit)) as letters:
        async for each in letters:
            page.append(each)
            found += 1
            if len(page) == PAGE:
                _write(table(page))
                page = []
    if page:
        _write(table(page))
    elif not found:
        sys.stderr.write("no dead letters" + (" like that" if wanted != LetterFilter() else "") + "\n")
    try:
        async for advisory in _advisories(at, wanted, limit):
            message = f"{advisory.stream} {advisory.sequence} to {advisory.consumer}"
            why = f"the server gave up delivering {message}: {advisory.why}"
            _write([f"{when(advisory.time_ns)} {printable(why)}"])
    except StreamMissing as error:
        sys.stderr.write(f"hint: {error}; fshipper partition apply creates it\n")


async def _list_json(at: DeadLetterStore, wanted: LetterFilter, limit: int) -> None:
    async with contextlib.aclosing(at.newest(wanted, limit)) as letters:
        async for each in letters:
            _write([json.dumps(letter_json(each))])  # what is no UTF-8 stays escaped
    with contextlib.suppress(StreamMissing):
        async for advisory in _advisories(at, wanted, limit):
            _write([json.dumps({"v": VERSION, "kind": "advisory"} | asdict(advisory))])


async def _advisories(at: DeadLetterStore, wanted: LetterFilter, limit: int) -> AsyncGenerator[Advisory]:
    """The advisories that match. They contain only the stream: a filter by host or reason matches none."""
    if not wanted.host and not wanted.reason:
        async with contextlib.aclosing(at.advisories(wanted.stream, limit)) as found:
            async for each in found:
                yield each


def _write(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _filter_of(options: FilterOptions) -> LetterFilter:
    """The filter of these options. Raises UsageError."""
    for option, value in (("--host", options.host), ("--stream", options.stream)):
        if value and not _TOKENS.fullmatch(value):
            raise UsageError(f"{option} {value!r} is no name that a dead letter can have")
    if "." in options.stream:
        raise UsageError(f"--stream {options.stream!r} is no name of a stream")
    return LetterFilter(host=options.host, stream=options.stream, reason=options.reason)


def _at_desk(settings: Settings, work: Callable[[DeadLetterStore], Awaitable[_T]]) -> _T:
    async def within() -> _T:
        async with open_dead_letters(settings) as at:
            return await work(at)

    return asyncio.run(within())


COLUMNS = ("number", "when", "host", "stream", "bytes", "reason")
RIGHT = frozenset({"number", "bytes"})
REASON_CHARACTERS = 100


def table(letters: Sequence[Letter]) -> Iterator[str]:
    """The lines of a table, below a line of names."""
    rows = [list(map(Text, _cells(each))) for each in letters]
    return (line.plain for line in fitted(standard_output(), COLUMNS, rows, numbers=RIGHT, wrapped="reason"))


def in_full(letter: Letter, payload: bytes) -> Iterator[str]:
    """Everything of a letter, line by line, safe for a terminal."""
    yield f"number    {letter.sequence}"
    yield f"when      {when(letter.time_ns)}"
    yield f"host      {printable(letter.host)}"
    yield f"from      {printable(letter.stream)} {printable(letter.origin_sequence)}"
    yield f"reason    {printable(letter.reason)}"
    cut = f", the beginning of {letter.cut_from}" if letter.cut_from else ""
    yield f"payload   {len(payload)} bytes{cut}"
    for name, value in letter.headers.items():
        yield f"header    {printable(name)}: {printable(value)}"
    yield from dump(payload)


def _requeued_line(letter: Letter, octets: int) -> str:
    if not octets:
        return f"left {letter.sequence}: it holds no bytes; fshipper dlq drop {letter.sequence} removes it"
    cut = f" (only the beginning was kept of the message's {letter.cut_from} bytes)" if letter.cut_from else ""
    return f"requeued {letter.sequence}: {octets} bytes of text of {printable(letter.host)}{cut}"


def when(time_ns: int) -> str:
    """A moment in UTC."""
    return dt.datetime.fromtimestamp(time_ns / 1e9, tz=dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cells(each: Letter) -> tuple[str, ...]:
    reason, size = printable(each.reason), format_bytes(each.bytes)
    return (
        str(each.sequence),
        when(each.time_ns),
        printable(each.host),
        printable(each.stream),
        f"{size} of {format_bytes(each.cut_from)}" if each.cut_from else size,
        reason if len(reason) <= REASON_CHARACTERS else reason[: REASON_CHARACTERS - 3] + "...",
    )
