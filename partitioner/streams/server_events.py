"""`fshipper partition events`: prints advisories of the server (`$JS.EVENT.>`) as text, as they arrive."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from partitioner.arguments import full_name, seconds_of, settings_of
from shipper.errors import InsecureConnection, Transient, Unavailable
from shipper.jetstream.admin import Admin, administration
from shipper.lifecycle import Stop
from shipper.ports import Heard
from shipper.retry import SESSION
from shipper.settings import Settings
from shipper.units import counted

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
    say = _SENTENCES.get(kind_of(event))
    try:
        sentence = say(event) if say else ""
    except (KeyError, TypeError, ValueError):
        sentence = ""
    return f"{when + 'Z' if when else '-'} {sentence or _anything(event)}"


def is_about(event: Event, stream: str) -> bool:
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


def _why(event: Event) -> str:
    return f": {event['reason']}" if event.get("reason") else ""


def _leader(event: Event) -> str:
    return f"{_about(event)} is led by {event['leader']} now"


def _quorum(event: Event) -> str:
    return f"{_about(event)} lost its quorum: it accepts and delivers nothing"


def _audit(event: Event) -> str:
    asked = str(event["subject"]).removeprefix("$JS.API.")
    refused = " and was refused" if '"error":' in str(event.get("response", "")) else ""
    request = f" {str(event['request'])[:MAX_TEXT]}" if event.get("request") else ""
    return f"a client requested {asked}{refused}{_client(event)}{request}"


def _client(event: Event) -> str:
    client = event.get("client") or {}
    named = client.get("name") or client.get("user") or client.get("host")
    return f" by {named}" if named else ""


def _anything(event: Event) -> str:
    told = ", ".join(f"{key} {value}" for key, value in event.items() if key not in {"type", "id", "timestamp"})
    return f"{kind_of(event) or 'something'}: {told}"[:MAX_TEXT]


_SENTENCES: Mapping[str, Callable[[Event], str]] = {
    "stream_action": _action,
    "consumer_action": _action,
    "max_deliver": lambda at: f"{_of_message(at)} is given up after {at['deliveries']} deliveries",
    "terminated": lambda at: f"{_of_message(at)} was terminated by its reader{_why(at)}",
    "nak": lambda at: f"{_of_message(at)} was handed back by its reader",
    "consumer_ack": lambda at: f"{_of_message(at)} was acknowledged after {at['ack_time'] / 1e6:.1f} ms",
    "consumer_pause": lambda at: (
        f"{_about(at)} is paused until {at['pause_until']}" if at.get("paused") else f"{_about(at)} goes on"
    ),
    "stream_leader_elected": _leader,
    "consumer_leader_elected": _leader,
    "stream_quorum_lost": _quorum,
    "consumer_quorum_lost": _quorum,
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


Wanted = Callable[[Mapping[str, Any]], bool]
Tell = Callable[[Mapping[str, Any]], None]


def events(
    *, stream: str | None, api: bool, metrics: bool, count: int, within: str | None, as_json: bool,
    url: str | None, config: Path | None, subject: str | None,
) -> None:  # fmt: skip
    """Print the advisories as they arrive."""
    settings = settings_of(url, config, subject)
    name = full_name(stream, settings.logs.subject) if stream else ""
    seconds = seconds_of(within, "--for") if within is not None else None

    def wanted(event: Mapping[str, Any]) -> bool:
        return (api or kind_of(event) != API_AUDIT) and (not name or is_about(event, name))

    def tell(event: Mapping[str, Any]) -> None:
        sys.stdout.write((json.dumps(event) if as_json else line(event)) + "\n")
        sys.stdout.flush()

    subjects = [ADVISORIES, *([METRICS] if metrics else [])]
    asyncio.run(_watch(settings, subjects, wanted, tell, count, seconds))


async def _watch(
    settings: Settings, subjects: Sequence[str], wanted: Wanted, tell: Tell, count: int, seconds: float | None
) -> None:
    """Print each event until `count` are printed or `seconds` have passed; reconnect after the server was lost."""
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
                    sys.stderr.write(f"the server was lost ({error}); events until then are missed\n")
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
