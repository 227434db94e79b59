"""What the server tells of itself (`$JS.EVENT.>`), as lines that people read. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

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
    """Whether an event is about `stream`; an audit of the API, whether it asks for it."""
    return event.get("stream") == stream or stream in str(event.get("subject", "")).split(".")


def _action(event: Event) -> str:
    done = ACTIONS.get(str(event["action"]), str(event["action"]))
    about = f"consumer {event['consumer']} of stream {event['stream']}" if event.get("consumer") else ""
    return f"{about or 'stream ' + str(event['stream'])} was {done}"


def _about(event: Event) -> str:
    consumer = f"consumer {event['consumer']} of " if event.get("consumer") else ""
    return f"{consumer}stream {event['stream']}"


def _given_up(event: Event) -> str:
    return f"{_about(event)}: message {event['stream_seq']} is given up after {event['deliveries']} deliveries"


def _terminated(event: Event) -> str:
    why = f": {event['reason']}" if event.get("reason") else ""
    return f"{_about(event)}: message {event['stream_seq']} was terminated by its reader{why}"


def _nak(event: Event) -> str:
    return f"{_about(event)}: message {event['stream_seq']} was handed back by its reader"


def _acked(event: Event) -> str:
    millis = event["ack_time"] / 1e6
    return f"{_about(event)}: message {event['stream_seq']} was acknowledged after {millis:.1f} ms"


def _paused(event: Event) -> str:
    return (
        f"{_about(event)} is paused until {event['pause_until']}" if event.get("paused") else f"{_about(event)} goes on"
    )


def _leader(event: Event) -> str:
    return f"{_about(event)} is led by {event['leader']} now"


def _quorum(event: Event) -> str:
    return f"{_about(event)} lost its quorum: it takes and hands out nothing"


def _snapshot(event: Event) -> str:
    return f"{_about(event)} is being backed up ({counted(event['state']['messages'], 'message')}){_client(event)}"


def _snapshot_done(event: Event) -> str:
    return f"{_about(event)} was backed up{_client(event)}"


def _restore(event: Event) -> str:
    return f"{_about(event)} is being restored{_client(event)}"


def _restored(event: Event) -> str:
    return f"{_about(event)} was restored ({event.get('bytes', '?')} bytes){_client(event)}"


def _pinned(event: Event) -> str:
    return f"{_about(event)} is read by client {event.get('pinned_id') or event.get('pinned_client_id', '?')} alone"


def _unpinned(event: Event) -> str:
    return f"{_about(event)} has no reader of its own any more: {event.get('reason', '?')}"


def _audit(event: Event) -> str:
    asked = str(event["subject"]).removeprefix("$JS.API.")
    refused = " and was refused" if '"error":' in str(event.get("response", "")) else ""
    request = f" {str(event['request'])[:MAX_TEXT]}" if event.get("request") else ""
    return f"somebody asked {asked}{refused}{_client(event)}{request}"


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
    "max_deliver": _given_up,
    "terminated": _terminated,
    "nak": _nak,
    "consumer_ack": _acked,
    "consumer_pause": _paused,
    "stream_leader_elected": _leader,
    "consumer_leader_elected": _leader,
    "stream_quorum_lost": _quorum,
    "consumer_quorum_lost": _quorum,
    "snapshot_create": _snapshot,
    "snapshot_complete": _snapshot_done,
    "restore_create": _restore,
    "restore_complete": _restored,
    "consumer_group_pinned": _pinned,
    "consumer_group_unpinned": _unpinned,
    API_AUDIT: _audit,
}
