"""`fshipper partition events`: prints advisories of the server (`$JS.EVENT.>`) as text, as they arrive."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
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
from shipper.units import counted, seconds_of

Event = Mapping[str, Any]

ADVISORIES = "$JS.EVENT.ADVISORY.>"
METRICS = "$JS.EVENT.METRIC.>"
"""How long acknowledgements take, of consumers that sample them."""
API_AUDIT = "api_audit"
ACTIONS = {"create": "created", "modify": "changed", "delete": "deleted"}
MAX_TEXT = 200


def kind_of(event: Event) -> str:
    """`stream_action` of `io.nats.jetstream.advisory.v1.stream_action`."""
    return str(event.get("type", "")).rpartition(".")[2]


def line(event: Event) -> str:
    """`2026-11-20T10:00:00Z stream LOGS_0 was created`."""
    when = str(event.get("timestamp", "")).partition(".")[0].removesuffix("Z")
    sentence = ""
    if say := _SENTENCES.get(kind_of(event)):
        with contextlib.suppress(KeyError, TypeError, ValueError):
            sentence = say(event)
    if not sentence:
        shown = ", ".join(f"{key} {value}" for key, value in event.items() if key not in {"type", "id", "timestamp"})
        sentence = f"{kind_of(event) or 'something'}: {shown}"[:MAX_TEXT]
    return f"{when + 'Z' if when else '-'} {sentence}"


def _is_about(event: Event, stream: str) -> bool:
    """Whether an event is about `stream`; for an API audit, whether the request is."""
    return event.get("stream") == stream or stream in str(event.get("subject", "")).split(".")


def _action(event: Event) -> str:
    done = ACTIONS.get(str(event["action"]), str(event["action"]))
    about = f"consumer {event['consumer']} of stream {event['stream']}" if event.get("consumer") else ""
    return f"{about or 'stream ' + str(event['stream'])} was {done}"


def _about(event: Event) -> str:
    consumer = f"consumer {event['consumer']} of " if event.get("consumer") else ""
    return f"{consumer}stream {event['stream']}"


def _of_message(event: Event) -> str:
    return f"{_about(event)}: message {event['stream_seq']}"


def _audit(event: Event) -> str:
    asked = str(event["subject"]).removeprefix("$JS.API.")
    refused = " and was refused" if '"error":' in str(event.get("response", "")) else ""
    request = f" {str(event['request'])[:MAX_TEXT]}" if event.get("request") else ""
    return f"a client requested {asked}{refused}{_client(event)}{request}"


def _client(event: Event) -> str:
    client = event.get("client") or {}
    named = client.get("name") or client.get("user") or client.get("host")
    return f" by {named}" if named else ""


_SENTENCES: Mapping[str, Callable[[Event], str]] = {
    "stream_action": _action,
    "consumer_action": _action,
    "max_deliver": lambda at: f"{_of_message(at)} is given up after {at['deliveries']} deliveries",
    "terminated": lambda at: (
        f"{_of_message(at)} was terminated by its reader" + (f": {at['reason']}" if at.get("reason") else "")
    ),
    "nak": lambda at: f"{_of_message(at)} was handed back by its reader",
    "consumer_ack": lambda at: f"{_of_message(at)} was acknowledged after {at['ack_time'] / 1e6:.1f} ms",
    "consumer_pause": lambda at: (
        f"{_about(at)} is paused until {at['pause_until']}" if at.get("paused") else f"{_about(at)} goes on"
    ),
    **dict.fromkeys(
        ("stream_leader_elected", "consumer_leader_elected"), lambda at: f"{_about(at)} is led by {at['leader']} now"
    ),
    **dict.fromkeys(
        ("stream_quorum_lost", "consumer_quorum_lost"),
        lambda at: f"{_about(at)} lost its quorum: it accepts and delivers nothing",
    ),
    "snapshot_create": lambda at: (
        f"{_about(at)} is being backed up ({counted(at['state']['messages'], 'message')}){_client(at)}"
    ),
    "snapshot_complete": lambda at: f"{_about(at)} was backed up{_client(at)}",
    "restore_create": lambda at: f"{_about(at)} is being restored{_client(at)}",
    "restore_complete": lambda at: f"{_about(at)} was restored ({at.get('bytes', '?')} bytes){_client(at)}",
    "consumer_group_pinned": lambda at: (
        f"{_about(at)} is read by client {at.get('pinned_id') or at.get('pinned_client_id', '?')} alone"
    ),
    "consumer_group_unpinned": lambda at: f"{_about(at)} has no reader of its own any more: {at.get('reason', '?')}",
    API_AUDIT: _audit,
}


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
        sys.stdout.write((json.dumps(event) if options.as_json else line(event)) + "\n")
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
