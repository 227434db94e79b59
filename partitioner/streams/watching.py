"""`fshipper partition events`: what the server tells of itself, as it happens."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from partitioner.options import Config, Subject, Url, settings_of
from partitioner.streams import happenings
from partitioner.streams.naming import full_name
from shipper.errors import InsecureConnection, Transient, Unavailable, UsageError
from shipper.jetstream.admin import Admin, administration
from shipper.jetstream.connection import Heard
from shipper.lifecycle import Stop
from shipper.retry import SESSION
from shipper.settings import Settings
from shipper.units import parse_seconds

Wanted = Callable[[Mapping[str, Any]], bool]
Tell = Callable[[Mapping[str, Any]], None]


def register(app: typer.Typer) -> None:
    """Add this verb."""
    app.command("events")(events)


def events(
    *,
    stream: Annotated[str | None, typer.Option(help="Only about this stream, or partition: p3.")] = None,
    api: Annotated[bool, typer.Option("--api", help="Requests to the JetStream API, too.")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="Sampled acknowledgements, too.")] = False,
    count: Annotated[int, typer.Option(min=0, help="End after so many; 0: never.")] = 0,
    within: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End after so long, for example 10s.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: an object a line.")] = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Show what the server tells of streams and consumers, as it happens."""
    settings = settings_of(url, config, subject)
    name = full_name(stream, settings.logs.subject) if stream else ""
    try:
        seconds = parse_seconds(within) if within is not None else None
    except ValueError as error:
        raise UsageError(f"--for: {error}") from None

    def wanted(event: Mapping[str, Any]) -> bool:
        return (api or happenings.kind_of(event) != happenings.API_AUDIT) and (
            not name or happenings.is_about(event, name)
        )

    def tell(event: Mapping[str, Any]) -> None:
        sys.stdout.write((json.dumps(event) if as_json else happenings.line(event)) + "\n")
        sys.stdout.flush()

    subjects = [happenings.ADVISORIES, *([happenings.METRICS] if metrics else [])]
    asyncio.run(_watch(settings, subjects, wanted, tell, count, seconds))


async def _watch(
    settings: Settings, subjects: Sequence[str], wanted: Wanted, tell: Tell, count: int, seconds: float | None
) -> None:
    """Tell of each event until `count` were told or `seconds` are over; a lost server is asked again."""
    left = count
    enough = asyncio.Event()

    async def heard(_: str, event: Mapping[str, Any]) -> None:
        nonlocal left
        if enough.is_set() or not wanted(event):
            return
        tell(event)
        left -= 1
        if left == 0:
            enough.set()

    stop, attempt = Stop(), 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not enough.is_set():
                try:
                    async with administration(settings.nats) as admin:
                        await _hear(admin, subjects, heard, enough)
                        attempt = 0
                except (Transient, Unavailable) as error:
                    if isinstance(error, Unavailable | InsecureConnection) and not attempt:
                        raise
                    attempt += 1
                    sys.stderr.write(f"the server was lost ({error}); what happens meanwhile is not heard\n")
                    await stop.nap(SESSION.delay(attempt))


async def _hear(admin: Admin, subjects: Sequence[str], heard: Heard, enough: asyncio.Event) -> None:
    """Listen until it is enough. Raises SessionLost."""
    for subject in subjects:
        await admin.connection.listen(subject, heard)
    sys.stderr.write("listening\n")
    sys.stderr.flush()
    lost = asyncio.Event()
    admin.connection.on_lost(lost.set)
    waits = {asyncio.create_task(enough.wait()), asyncio.create_task(lost.wait())}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if not enough.is_set():
        admin.connection.check()
