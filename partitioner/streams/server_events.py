"""`fshipper partition events`: prints advisories of the server (`$JS.EVENT.>`) as they arrive."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from partitioner.arguments import first_of, full_name
from partitioner.options import EventsOptions
from shipper.commands import settings_of
from shipper.errors import InsecureConnection, Transient, Unavailable
from shipper.jetstream.admin import Admin, administration
from shipper.lifecycle import Stop
from shipper.ports import MessageHandler
from shipper.retry import SESSION
from shipper.settings import Settings
from shipper.units import seconds_of

Event = Mapping[str, Any]

ADVISORIES = "$JS.EVENT.ADVISORY.>"
METRICS = "$JS.EVENT.METRIC.>"
"""How long acknowledgements take, of consumers that sample them."""
API_AUDIT = "api_audit"
MAX_TEXT = 200
"""Maximum characters of the fields of an event in a line; `--json` prints all of it."""


def kind_of(event: Event) -> str:
    """`stream_action` of `io.nats.jetstream.advisory.v1.stream_action`."""
    return str(event.get("type", "")).rpartition(".")[2]


def line(event: Event) -> str:
    """`2026-11-20T10:00:00Z stream_action: stream LOGS_0, action create`."""
    when = str(event.get("timestamp", "")).partition(".")[0].removesuffix("Z")
    client = event.get("client")
    fields = dict(event)
    if isinstance(client, Mapping):
        fields["client"] = client.get("name") or client.get("user") or client.get("host")
    shown = ", ".join(f"{key} {value}" for key, value in fields.items() if key not in {"type", "id", "timestamp"})
    return f"{when + 'Z' if when else '-'} {kind_of(event) or 'event'}: {shown[:MAX_TEXT]}"


def _is_about(event: Event, stream: str) -> bool:
    """Whether an event is about `stream`; for an API audit, whether the request is."""
    return event.get("stream") == stream or stream in str(event.get("subject", "")).split(".")


def events(options: EventsOptions) -> None:
    """Print the advisories as they arrive."""
    settings = settings_of(options)
    name = full_name(options.stream, settings.logs.subject) if options.stream else ""
    seconds = seconds_of(options.within, "--for") if options.within is not None else None
    asyncio.run(_watch(settings, options, name, seconds))


async def _watch(settings: Settings, options: EventsOptions, name: str, seconds: float | None) -> None:
    """Print each event until enough are printed or `seconds` have passed; reconnect after the server was lost."""
    subjects = [ADVISORIES, *([METRICS] if options.metrics else [])]
    left = options.count
    enough = asyncio.Event()

    async def handler(_: str, event: Event) -> None:
        nonlocal left
        unwanted = (kind_of(event) == API_AUDIT and not options.api) or (name and not _is_about(event, name))
        if enough.is_set() or unwanted:
            return
        sys.stdout.write((json.dumps({"v": 1, **event}) if options.as_json else line(event)) + "\n")
        sys.stdout.flush()
        left -= 1
        if left == 0:
            enough.set()

    stop, attempt = Stop(), 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not enough.is_set():
                try:
                    async with administration(settings.nats) as admin:
                        lost = await _listen(admin, subjects, handler)
                        attempt = 0
                        await first_of(enough.wait(), lost.wait())
                        if not enough.is_set():
                            admin.connection.check()
                except (Transient, Unavailable) as error:
                    if isinstance(error, Unavailable | InsecureConnection) and not attempt:
                        raise
                    attempt += 1
                    sys.stderr.write(f"the server was lost ({error}); events until then are missed\n")
                    await stop.nap(SESSION.delay(attempt))


async def _listen(admin: Admin, subjects: Sequence[str], handler: MessageHandler) -> asyncio.Event:
    """Subscribe; returns the event of the end of the connection."""
    for subject in subjects:
        await admin.connection.listen(subject, handler)
    sys.stderr.write("listening\n")
    sys.stderr.flush()
    lost = asyncio.Event()
    admin.connection.on_lost(lost.set)
    admin.connection.check()  # a refused subscription, or a server that was lost before
    return lost
