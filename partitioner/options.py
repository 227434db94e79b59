"""What every verb of `fshipper partition` takes, and how it reaches the server."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import pydantic
import typer

from shipper.config import load
from shipper.errors import UsageError
from shipper.jetstream.admin import Admin, administration
from shipper.lifecycle import Stop
from shipper.retry import SESSION, until_done
from shipper.settings import Partitions, Settings
from shipper.units import parse_size

ATTEMPTS = 6  # a cluster that elects a leader refuses, or does not answer, for some seconds

_T = TypeVar("_T")

Url = Annotated[str | None, typer.Option(help="NATS servers, separated by commas (NATS_URL).")]
Config = Annotated[Path | None, typer.Option(help="Configuration file (SHIPPER_CONFIG).")]
Subject = Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT).")]
Json = Annotated[bool, typer.Option("--json", help="For programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def settings_of(url: str | None, config: Path | None, subject: str | None, partitions: int | None = None) -> Settings:
    """The settings with these flags over them. Raises ConfigError."""
    return load({"nats.url": url, "logs.subject": subject, "logs.partitions": partitions}, config=config)


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

    async def all_attempts() -> _T:
        return await until_done(attempt, policy=SESSION, stop=Stop(), attempts=attempts)

    return asyncio.run(all_attempts())
