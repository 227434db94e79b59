"""Checks whether the server would accept the data of this host, with the producer's own rights. Nothing is stored."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from producer.preflight.report import Finding, ServerFindings, durability_finding, good, note, warning, wrong
from shipper.control import ReceiptsReply, ReceiptsRequest, encode
from shipper.errors import ShipperError
from shipper.jetstream import direct_get
from shipper.jetstream.connection import NOT_FOUND_STREAM, START_HINT
from shipper.jetstream.durability import Durability, judge, replicas_in
from shipper.jetstream.permission_probe import Probe, ProbeOutcome, ProbeReply, probing
from shipper.jetstream.publisher import HEADER_RESERVE_BYTES
from shipper.partition_map import MAX_PARTITIONS, PartitionMap, decode
from shipper.settings import NatsSettings
from shipper.subjects import (
    BUCKET_STREAM,
    USER_INFO,
    beat_subject,
    beats_stream,
    bucket_subject,
    control_down,
    control_up,
    log_subject,
    map_key,
    stream_name,
)
from shipper.units import counted, format_bytes

WRONG_LAST_SEQUENCE = 10071  # the answer to a probe that had every right and met the right stream
OTHER_STREAM = 10060
_OWN_ACCOUNT = re.compile(r"host-[0-9a-f]{8}|A[A-Z2-7]{55}")
"""How `fshipper hosts` calls the accounts of hosts. A user may request its account in those only."""
NEARLY_FULL_PERCENT = 70
"""Above this the collector purges what producers may still want replayed."""

Json = Mapping[str, Any]


class Sending(NamedTuple):
    """What a producer would send, and where."""

    host: str
    prefix: str
    partition: int
    partitions: int
    block_bytes: int

    @property
    def subject(self) -> str:
        """Subject of the blocks."""
        return log_subject(self.prefix, self.partition, self.host)

    @property
    def stream(self) -> str:
        """The stream that takes them."""
        return stream_name(self.prefix, self.partition)

    @property
    def message_bytes(self) -> int:
        """The largest message, with its headers."""
        return self.block_bytes + HEADER_RESERVE_BYTES

    @property
    def make_stream(self) -> str:
        """How the stream comes to be."""
        return f"create it: fshipper partition apply --partitions {self.partitions}"


async def ask_server(settings: NatsSettings, sending: Sending) -> ServerFindings:
    """Every check in the order in which a producer would meet it. It ends where no further request is possible."""
    findings: list[Finding] = []
    durability: Durability | None = None
    try:
        async with probing(settings, host=sending.host) as probe:
            findings.append(good("server", f"connected to {probe.server}"))
            findings.append(_judge_payload(probe.max_payload, sending))
            rights = await _rights(probe, sending)
            findings.extend(rights.findings)
            if not findings[2].hint:  # else no answer can arrive
                findings.append(_judge_account(await probe.account()))
            durability = judge(await probe.facts(settings), rights.replicas)
            findings.append(durability_finding(durability))
    except ShipperError as error:
        check = "connection" if findings else "server"
        findings.append(wrong(check, str(error), error.hint or "check the server's log"))
    return ServerFindings(findings, durability)


class MapFound(NamedTuple):
    """The partitions that the server has."""

    map: PartitionMap | None
    denied: str  #: why this host may not read the map; empty: it may
    streams: int  #: without a map: how many partitions have a stream, from partition 0 on


async def _partition_map(probe: Probe, sending: Sending) -> MapFound:
    reply = await probe.last_stored(bucket_subject(map_key(sending.prefix)), BUCKET_STREAM)
    known = decode(reply.payload) if reply.outcome is ProbeOutcome.ANSWERED else None
    streams = 0
    while known is None and streams < MAX_PARTITIONS:
        subject = log_subject(sending.prefix, streams, sending.host)
        found = await probe.last_stored(subject, stream_name(sending.prefix, streams))
        if found.outcome is not ProbeOutcome.ANSWERED:
            break
        streams += 1
    return MapFound(known, reply.denied, streams)


class Rights(NamedTuple):
    """What this user may do."""

    findings: list[Finding]
    replicas: list[int]  #: of the stream, if this user may see it


async def _rights(probe: Probe, sending: Sending) -> Rights:
    inbox = _judge_subscription("inbox", await probe.subscribe(), f"_INBOX_{sending.host}.>", "acks")
    listening = control_down(sending.host)
    questions = _judge_subscription(
        "questions", await probe.subscribe(listening), listening, "questions of the collector"
    )
    if inbox.hint:  # every answer below would go there
        denied = await probe.publish(sending.subject, sending.stream)
        published = [_judge_publish(denied, sending)] if denied.outcome is ProbeOutcome.DENIED else []
        return Rights([inbox, questions, *published], [])
    found = await _partition_map(probe, sending)
    numbers = _judge_map(found, sending)
    if found.map is not None:  # it has precedence over the settings
        partition = found.map.partition_of(sending.host)
        sending = sending._replace(partition=partition, partitions=found.map.partitions)
    stored = _judge_publish(await probe.publish(sending.subject, sending.stream), sending)
    info = await probe.stream(sending.stream)
    stream, config = _judge_stream(info, sending), info.content.get("config")
    direct = _judge_direct(await probe.last_stored(sending.subject, sending.stream), sending)
    request = encode(ReceiptsRequest(sending.partition).to_json())
    collector = _judge_collector(await probe.ask(control_up(sending.host), request), sending)
    beat = await probe.last_stored(beat_subject(sending.prefix, sending.host), beats_stream(sending.prefix))
    findings = [inbox, questions, numbers, stored, *stream, direct, collector, _judge_name(beat, sending)]
    return Rights(findings, [replicas_in(config)] if isinstance(config, dict) else [])


# -- what an answer means -------------------------------------------------------------------------------------------


def _judge_payload(max_payload: int, sending: Sending) -> Finding:
    needed = f"a block needs {format_bytes(sending.block_bytes)} and {format_bytes(HEADER_RESERVE_BYTES)} for headers"
    taken = f"the server takes messages of {format_bytes(max_payload)}"
    if max_payload >= sending.message_bytes:
        return good("max_payload", f"{taken}; {needed}")
    return wrong(
        "max_payload",
        f"{taken} only; {needed}",
        "raise max_payload in the server's configuration, or lower --block (SHIPPER_BLOCK)",
    )


def _judge_map(found: MapFound, sending: Sending) -> Finding:
    """Whether the settings, the partition map and the streams agree on the number of partitions."""
    check, configured = "partitions", max(1, sending.partitions)
    if found.denied:
        right = direct_get.subject_of(BUCKET_STREAM, bucket_subject(map_key(sending.prefix)))
        return warning(
            check,
            f"this host may not read the partition map: {found.denied}",
            f'give the user the right to publish to "{right}"',
        )
    if found.map is not None:
        number = found.map.partition_of(sending.host)
        by_map = f"version {found.map.version} of the partition map: partition {number} of {found.map.partitions}"
        if configured == found.map.partitions:
            return good(check, by_map)
        return note(check, f"{by_map}; SHIPPER_PARTITIONS is {sending.partitions}, and the map decides")
    write_map = "run once: fshipper partition apply; then all hosts follow the partition map"
    if found.streams in {0, configured}:
        return note(check, f"the server has no partition map, so SHIPPER_PARTITIONS counts: {configured}")
    return wrong(
        check,
        f"SHIPPER_PARTITIONS is {sending.partitions}, the server has {found.streams} partitions and no partition map",
        f"set SHIPPER_PARTITIONS={found.streams} (--partitions), or {write_map}",
    )


def _judge_subscription(check: str, denied: str, subject: str, what: str) -> Finding:
    if not denied:
        return good(check, f"{what} arrive on {subject}")
    return wrong(check, f"{what} cannot arrive: {denied}", f'give the user the right to subscribe to "{subject}"')


def _judge_publish(reply: ProbeReply, sending: Sending) -> Finding:
    error = reply.content.get("error") or {}
    match reply.outcome, reply.error_code:
        case ProbeOutcome.ANSWERED, code if code == WRONG_LAST_SEQUENCE:
            return good("publish", f"stream {sending.stream} takes {sending.subject}")
        case ProbeOutcome.DENIED, _:
            return wrong("publish", reply.denied, f'give the user the right to publish to "{sending.subject}"')
        case ProbeOutcome.ANSWERED, code if code == OTHER_STREAM:
            return wrong(
                "publish",
                f"another stream than {sending.stream} takes {sending.subject}",
                "two streams must not share a subject, and SHIPPER_SUBJECT must be the same for all programs",
            )
        case ProbeOutcome.ANSWERED, _:
            return wrong("publish", f"refused: {error.get('description')}", "check the stream: nats stream info")
    return wrong("publish", f"no stream takes {sending.subject}", sending.make_stream)


def _judge_stream(reply: ProbeReply, sending: Sending) -> list[Finding]:
    if reply.outcome in {ProbeOutcome.DENIED, ProbeOutcome.SILENT}:
        return [note("stream", f"the settings of stream {sending.stream} are not shown to this user")]
    if reply.outcome is ProbeOutcome.NO_SUBSCRIBER:
        return [wrong("jetstream", "JetStream is not enabled on this server or for this account", START_HINT)]
    if reply.error_code == NOT_FOUND_STREAM:
        return [
            wrong(
                "stream", f"stream {sending.stream} of partition {sending.partition} is not there", sending.make_stream
            )
        ]
    if reply.error_code:
        return [wrong("jetstream", str((reply.content["error"] or {}).get("description")), "check the server's log")]
    config, state = reply.content.get("config", {}), reply.content.get("state", {})
    used = f"{format_bytes(state.get('bytes', 0))} of {format_bytes(config.get('max_bytes', 0))} used"
    found = [*_unsuitable(config, sending), *_stream_space(config, state, sending)]
    return found or [good("stream", f"stream {sending.stream} keeps every line: discard new, {used}")]


def _judge_direct(reply: ProbeReply, sending: Sending) -> Finding:
    """Whether a session can request how far this host is stored: it must, each time that it begins."""
    if reply.outcome is ProbeOutcome.ANSWERED:
        return good("direct_get", "the last message of this host can be requested")
    if reply.outcome is ProbeOutcome.DENIED:
        return note("direct_get", "this host may not read what is stored of it: only its sequence is compared")
    return wrong(
        "direct_get",
        f"stream {sending.stream} does not answer direct reads",
        f"set allow_direct: nats stream edit {sending.stream} --allow-direct; or {sending.make_stream}",
    )


def _judge_collector(reply: ProbeReply, sending: Sending) -> Finding:
    """Whether a collector answers for this host's partition. A producer ships without one, too."""
    if reply.outcome is ProbeOutcome.DENIED:
        subject = control_up(sending.host)
        return wrong("collector", reply.denied, f'give the user the right to publish to "{subject}"')
    receipts = ReceiptsReply.from_json(reply.content)
    if reply.outcome is ProbeOutcome.ANSWERED and receipts is not None:
        known = counted(len(receipts.receipts), "file")
        return note("collector", f"a collector answers for partition {sending.partition}: {known} known")
    return note("collector", f"no collector answers for partition {sending.partition}; what is sent waits for one")


def _judge_name(reply: ProbeReply, sending: Sending) -> Finding:
    """Whether another live producer with this host's name would be noticed at the start. It is shipped all the same."""
    if reply.outcome is ProbeOutcome.ANSWERED:
        return good("name", f"another live producer that is called {sending.host} would be noticed")
    unchecked = f"whether another live producer is called {sending.host} is not checked at the start"
    if reply.outcome is ProbeOutcome.DENIED:
        right = direct_get.subject_of("*", f"{sending.subject.partition('.')[0]}.*.{sending.host}")
        return warning("name", f"{unchecked}: {reply.denied}", f'give the user the right to publish to "{right}"')
    return note("name", f"{unchecked}: no collector keeps heartbeats here")


def _judge_account(reply: ProbeReply) -> Finding:
    """Whether this host has an account of its own, as `fshipper hosts` makes them.

    In one account with JetStream and other hosts, a user with any host's key can name a reply subject to which the
    server then publishes with its own rights: lines of other hosts, the partition map, commands to JetStream.
    """
    data = reply.content.get("data") or {}
    account, publish = str(data.get("account", "")), (data.get("permissions") or {}).get("publish") or {}
    if USER_INFO in (publish.get("allow") or ()) and _OWN_ACCOUNT.fullmatch(account):
        return good("isolated", f"this host has an account of its own, {account}")
    where = f"account {account}" if account else "an account"
    return warning(
        "isolated",
        f"not isolated: this user shares {where} with other hosts or with JetStream, so any host's key can forge lines "
        "of others, and command the streams",
        "on the server's machine: fshipper hosts migrate; then, with tokens, bring the new one here "
        "(docs/guides/security.md)",
    )


def _unsuitable(config: Json, sending: Sending) -> Iterator[Finding]:
    kept: list[tuple[str, object, Callable[..., Finding], str]] = [
        ("discard", "new", warning, "a full stream drops its oldest lines, read or not"),
        ("retention", "limits", wrong, "lines may be dropped before they are archived"),
        ("storage", "file", warning, "a restart of the server loses the lines"),
        ("no_ack", False, wrong, "the server never confirms that a line is stored"),
        ("sealed", False, wrong, "the stream takes no more lines"),
    ]
    for field, safe, say, effect in kept:
        if config.get(field, safe) != safe:
            yield say(field, f"{field} is {config[field]!r}: {effect}", "make it so: fshipper partition plan shows how")
    if config.get("max_bytes", -1) <= 0:
        yield warning(
            "max_bytes",
            "the stream has no max_bytes: it grows until the disk is full",
            "set it: fshipper partition apply --max-bytes 50GB",
        )
    if 0 < (most := config.get("max_msg_size", -1)) < sending.message_bytes:
        yield wrong(
            "max_msg_size",
            f"the stream takes messages of {format_bytes(most)} only",
            "raise max_msg_size of the stream, or lower --block (SHIPPER_BLOCK)",
        )


def _stream_space(config: Json, state: Json, sending: Sending) -> Iterator[Finding]:
    most, used = config.get("max_bytes", -1), state.get("bytes", 0)
    most_messages, messages = config.get("max_msgs", -1), state.get("messages", 0)
    hint = "let the collector catch up, or raise it: fshipper partition apply --max-bytes"
    if config.get("discard") != "new":
        return
    if 0 < most < used + sending.message_bytes or 0 < most_messages <= messages:
        yield wrong("room", f"stream {sending.stream} is full: {format_bytes(used)} in {messages} messages", hint)
    elif most > 0 and used * 100 > most * NEARLY_FULL_PERCENT:
        yield warning("room", f"stream {sending.stream} is {used * 100 // most} % full", hint)
