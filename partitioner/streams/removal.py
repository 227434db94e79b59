"""`fshipper partition purge|rm-message`: messages are removed from a stream, and nothing that is not archived."""

import base64
import contextlib
import datetime as dt
import json
import sys
import time
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from partitioner.arguments import existing, full_name, with_admin
from partitioner.options import PurgeOptions, RemoveMessageOptions
from shipper import codec, moments
from shipper.commands import settings_of
from shipper.errors import Fatal, Poison, Unavailable, UsageError
from shipper.jetstream.admin import Admin, Json
from shipper.layout import NANOSECONDS
from shipper.model import Block
from shipper.prompts import confirm
from shipper.settings import Settings
from shipper.subjects import BUCKET_STREAM, COLLECTOR, bucket_subject, lease_key, parse_log_subject, partition_of_stream
from shipper.units import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMessage:
    """A message of a stream."""

    sequence: int
    subject: str
    time: str
    octets: int  #: of the payload
    block: Block | None = None  #: None: it is a plain message, or none of ours
    host: str = ""

    @classmethod
    def read(cls, answer: Json) -> Self:
        """A message as the server's API returns it."""
        lines = base64.b64decode(answer.get("hdrs", "")).decode("utf-8", "replace").split("\r\n")[1:]
        parts = [line.partition(":") for line in lines]
        headers = {name.strip(): value.strip() for name, colon, value in parts if colon}
        block, host = None, ""
        with contextlib.suppress(Poison):
            host = parse_log_subject(str(answer["subject"])).host
            block = None if codec.is_plain(headers) else codec.from_headers(headers)
        return cls(
            sequence=int(answer["seq"]),
            subject=str(answer["subject"]),
            time=str(answer["time"]),
            octets=len(base64.b64decode(answer.get("data", ""))),
            block=block,
            host=host,
        )

    @property
    def described(self) -> str:
        """One line."""
        what = f"{self.octets} bytes"
        if self.block is not None:
            what += f": bytes {self.block.span} of {self.block.file}"
        return f"message {self.sequence} of {self.subject}, stored {self.time}, {what}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        found: dict[str, Any] = {"sequence": self.sequence, "subject": self.subject, "time": self.time}
        found |= {"bytes": self.octets, "host": self.host}
        if self.block is not None:
            found |= {"file": self.block.file, "source": self.block.source, "span": list(self.block.span)}
        return found


class ArchivedPosition(NamedTuple):
    """Messages below `archived` are in the archive; why it ends there."""

    archived: int
    why: str


async def reach_of(admin: Admin, stream: str, *, subject: str) -> ArchivedPosition:
    """How much of a partition's stream is archived; streams of other applications have no collector and no limit.

    Messages that the server knows as acknowledged may come after a hole, from which the collector may have to read
    again: its own position in the bucket counts, too.
    """
    partition = partition_of_stream(subject, stream)
    if partition is None:
        return ArchivedPosition(2**63, "")
    consumer = await admin.consumer(stream, COLLECTOR)
    if consumer is None:
        return ArchivedPosition(0, f"no {COLLECTOR} reads {stream}")
    floor = int(consumer["ack_floor"]["stream_seq"]) + 1
    resume = None
    if await admin.stream(BUCKET_STREAM) is not None:
        entry = await admin.newest_of(BUCKET_STREAM, bucket_subject(lease_key(subject, partition)))
        with contextlib.suppress(ValueError, LookupError, TypeError):  # the lease is no JSON object, or there is none
            resume = json.loads(base64.b64decode(entry["data"]))["resume"] if entry else None
    if isinstance(resume, int) and 1 < resume < floor:
        return ArchivedPosition(resume, "the collector waits for bytes that are missing, and may read from there again")
    return ArchivedPosition(floor, "the collector has not archived what follows")


def purge(options: PurgeOptions) -> None:
    """Remove the messages before a time or a sequence, or all of them."""
    before, below = options.before, options.below
    if (before is not None) + (below is not None) + options.everything != 1:
        raise UsageError("give what to remove", hint="one of --before TIME, --below SEQUENCE, --all")
    settings = settings_of(options)
    name = full_name(options.stream, settings.logs.subject)
    moment = ""
    if before is not None:
        seconds, rest_ns = divmod(moments.moment(before, time.time_ns()), NANOSECONDS)
        moment = f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns:09d}Z"

    async def read_state(admin: Admin) -> tuple[int, ArchivedPosition]:
        end = int((await existing(admin, name))["state"]["last_seq"]) + 1
        wanted = below if below is not None else end
        if moment:
            wanted = await admin.first_since(name, moment) or wanted
        return min(wanted, end), await reach_of(admin, name, subject=settings.logs.subject)

    wanted, reach = with_admin(settings, read_state)
    end = wanted if options.force else min(wanted, reach.archived)
    if end < wanted and not options.as_json:
        sys.stderr.write(f"messages {end} to {wanted - 1} stay: {reach.why} (--force removes them)\n")
    if options.force and wanted > reach.archived:
        sys.stderr.write(f"messages {max(1, reach.archived)} to {wanted - 1} are in no archive\n")
    if not options.yes:
        sys.stdout.write(f"the messages of {name} below {end} are removed\n")
    confirm(yes=options.yes)
    purged = with_admin(settings, lambda admin: admin.purge(name, below=end)) if end > 1 else 0
    if options.as_json:
        sys.stdout.write(json.dumps({"stream": name, "purged": purged, "below": end, "asked": wanted}) + "\n")
    else:
        sys.stdout.write(f"removed {counted(purged, 'message')} from {name}\n")


def rm_message(options: RemoveMessageOptions) -> None:
    """Remove one message for good, and print the command that removes the same bytes from the archive."""
    settings, sequence = settings_of(options), options.sequence
    name = full_name(options.stream, settings.logs.subject)

    async def read_state(admin: Admin) -> tuple[StreamMessage, str]:
        await existing(admin, name)
        answer = await admin.message(name, sequence)
        if answer is None:
            raise Unavailable(f"stream {name} has no message {sequence}")
        found = StreamMessage.read(answer)
        return found, await _objection(admin, name, found, settings)

    found, objection = with_admin(settings, read_state)
    if objection and not options.force:
        raise Fatal(f"{found.described}\n{objection}", hint="nothing was removed; --force does it all the same")
    if not options.as_json:
        sys.stdout.write(f"{found.described}\n")
    confirm(yes=options.yes, question="Remove it?")
    removed = with_admin(settings, lambda admin: admin.delete_message(name, sequence, erase=options.erase))
    if options.as_json:
        sys.stdout.write(json.dumps(found.to_json() | {"stream": name, "removed": removed}) + "\n")
        return
    sys.stdout.write(f"removed message {sequence} from {name}\n" if removed else "it was gone already\n")
    if block := found.block:
        span = f"{block.span.start}-{block.span.end}"
        command = f"fshipper redact --host {found.host} --source {block.source} --span {span}"
        sys.stdout.write(f"the archive has it, too: {command}\n")


async def _objection(admin: Admin, name: str, found: StreamMessage, settings: Settings) -> str:
    """Why removing a message would not do what it is meant to; empty: it would."""
    if partition_of_stream(settings.logs.subject, name) is None:
        return ""
    reach = await reach_of(admin, name, subject=settings.logs.subject)
    if found.sequence >= reach.archived:
        return "it is not archived yet: the collector would request it again from its producer"
    newest = await admin.newest_of(name, found.subject)
    if newest is not None and int(newest["seq"]) == found.sequence:
        return (
            "it is the newest of its host: without it the producer thinks that the server lost data, and sends it again"
        )
    return ""
