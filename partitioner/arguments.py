"""What the arguments of a command mean: settings, sizes, times, streams; a session with the server."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pydantic

from shipper.errors import Unavailable, UsageError
from shipper.jetstream.admin import Admin, Json, administration
from shipper.lifecycle import Stop
from shipper.retry import SESSION, until_done
from shipper.settings import Partitions, Settings
from shipper.subjects import stream_name
from shipper.units import parse_size

ATTEMPTS = 6  # a cluster that elects a leader refuses, or does not answer, for some seconds

_T = TypeVar("_T")


def size_of(text: str | None, flag: str) -> int | None:
    """Bytes in the value of `flag`. Raises UsageError."""
    try:
        return parse_size(text) if text is not None else None
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def numbers_of(text: str | None, *, flag: str = "--partitions") -> tuple[int, ...]:
    """The partitions in `0,2` or `0-3`; none where nothing is given. Raises UsageError."""
    try:
        return pydantic.TypeAdapter(Partitions).validate_python(text or "")
    except pydantic.ValidationError as error:
        raise UsageError(f"{flag}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def with_admin(settings: Settings, work: Callable[[Admin], Awaitable[_T]], *, attempts: int = ATTEMPTS) -> _T:
    """`work`'s result; all of it again, on a new connection, when the server was lost or busy."""

    async def attempt() -> _T:
        async with administration(settings.nats) as admin:
            return await work(admin)

    return asyncio.run(until_done(attempt, policy=SESSION, stop=Stop(), attempts=attempts))


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of `waits` ends, and cancel the others."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


_PARTITION = re.compile(r"p?(\d{1,6})")


def full_name(text: str, subject: str) -> str:
    """The name of the stream: `text` is the number of a partition, or the name of any other stream."""
    found = _PARTITION.fullmatch(text)
    return stream_name(subject, int(found[1])) if found else text


async def existing(admin: Admin, name: str) -> Json:
    """The stream `name`. Raises Unavailable: there is none."""
    info = await admin.stream(name)
    if info is None:
        raise Unavailable(f"there is no stream {name}", hint="fshipper partition export --all shows them")
    return info
