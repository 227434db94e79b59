"""`fshipper partition purge|rm-message`: messages are removed from a stream, and nothing that is not archived."""

import base64
import datetime as dt
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from partitioner.arguments import confirm, existing, full_name, moment_of, rfc3339, settings_of, with_admin
from shipper import codec
from shipper.errors import Fatal, Poison, Unavailable, UsageError
from shipper.jetstream.admin import Admin, Json
from shipper.model import Block
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

    @property
    def described(self) -> str:
        """One line."""
        what = f"{self.octets} bytes"
        if self.block is not None:
            what += f": bytes {self.block.span} of {self.block.file}"
        return f"message {self.sequence} of {self.subject}, stored {self.time}, {what}"

    def counterpart(self) -> str:
        """The command that removes the same bytes from the archive; empty: unknown."""
        if self.block is None:
            return ""
        span = f"{self.block.span.start}-{self.block.span.end}"
        return f"fshipper redact --host {self.host} --source {self.block.source} --span {span}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        found: dict[str, Any] = {"sequence": self.sequence, "subject": self.subject, "time": self.time}
        found |= {"bytes": self.octets, "host": self.host}
        if self.block is not None:
            found |= {"file": self.block.file, "source": self.block.source, "span": list(self.block.span)}
        return found


def read_message(answer: Json) -> StreamMessage:
    """A message as the server's API returns it."""
    headers = _headers(base64.b64decode(answer.get("hdrs", "")))
    block, host = None, ""
    try:
        host = parse_log_subject(str(answer["subject"])).host
        block = None if codec.is_plain(headers) else codec.from_headers(headers)
    except Poison:
        pass
    octets = len(base64.b64decode(answer.get("data", "")))
    return StreamMessage(
        sequence=int(answer["seq"]),
        subject=str(answer["subject"]),
        time=str(answer["time"]),
        octets=octets,
        block=block,
        host=host,
    )


def _headers(raw: bytes) -> dict[str, str]:
    lines = raw.decode("utf-8", "replace").split("\r\n")[1:]
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


class ArchivedPosition(NamedTuple):
    """Messages below `archived` are in the archive; why it ends there."""

    archived: int
    why: str


EVERYTHING = ArchivedPosition(2**63, "")


async def reach_of(admin: Admin, stream: str, *, subject: str) -> ArchivedPosition:
    """How much of a partition's stream is archived; streams of other applications have no collector and no limit.

    Messages that the server knows as acknowledged may come after a hole, from which the collector may have to read
    again: its own position in the bucket counts, too.
    """
    partition = partition_of_stream(subject, stream)
    if partition is None:
        return EVERYTHING
    consumer = await admin.consumer(stream, COLLECTOR)
    if consumer is None:
        return ArchivedPosition(0, f"no {COLLECTOR} reads {stream}")
    floor = int(consumer["ack_floor"]["stream_seq"]) + 1
    claim = await _claim(admin, lease_key(subject, partition))
    resume = claim.get("resume")
    if isinstance(resume, int) and 1 < resume < floor:
        return ArchivedPosition(resume, "the collector waits for bytes that are missing, and may read from there again")
    return ArchivedPosition(floor, "the collector has not archived what follows")


async def _claim(admin: Admin, key: str) -> dict[str, Any]:
    if await admin.stream(BUCKET_STREAM) is None:
        return {}
    entry = await admin.newest_of(BUCKET_STREAM, bucket_subject(key))
    try:
        found = json.loads(base64.b64decode(entry["data"])) if entry else {}
    except (ValueError, KeyError):
        return {}
    return found if isinstance(found, dict) else {}


def purge(
    stream: str, *, before: str | None, below: int | None, everything: bool, force: bool, yes: bool, as_json: bool,
    url: str | None, config: Path | None, subject: str | None,
) -> None:  # fmt: skip
    """Remove the messages before a time or a sequence, or all of them."""
    if (before is not None) + (below is not None) + everything != 1:
        raise UsageError("give what to remove", hint="one of --before TIME, --below SEQUENCE, --all")
    settings = settings_of(url, config, subject)
    name = full_name(stream, settings.logs.subject)
    moment = rfc3339(moment_of(before, dt.datetime.now(dt.UTC), "--before")) if before is not None else ""

    async def look(admin: Admin) -> tuple[int, int, ArchivedPosition]:
        state = (await existing(admin, name))["state"]
        wanted = below if below is not None else int(state["last_seq"]) + 1
        if moment:
            wanted = await admin.first_since(name, moment) or wanted
        wanted = min(wanted, int(state["last_seq"]) + 1)
        reach = await reach_of(admin, name, subject=settings.logs.subject)
        end = wanted if force else min(wanted, reach.archived)
        return end, wanted, reach

    end, wanted, reach = with_admin(settings, look)
    if end < wanted and not as_json:
        sys.stderr.write(f"messages {end} to {wanted - 1} stay: {reach.why} (--force removes them)\n")
    if force and wanted > reach.archived:
        sys.stderr.write(f"messages {max(1, reach.archived)} to {wanted - 1} are in no archive\n")
    if not yes:
        sys.stdout.write(f"the messages of {name} below {end} are removed\n")
    confirm(yes=yes)

    async def work(admin: Admin) -> int:
        return await admin.purge(name, below=end) if end > 1 else 0

    purged = with_admin(settings, work)
    if as_json:
        sys.stdout.write(json.dumps({"stream": name, "purged": purged, "below": end, "asked": wanted}) + "\n")
    else:
        sys.stdout.write(f"removed {counted(purged, 'message')} from {name}\n")


def rm_message(
    stream: str, sequence: int, *, erase: bool, force: bool, yes: bool, as_json: bool,
    url: str | None, config: Path | None, subject: str | None,
) -> None:  # fmt: skip
    """Remove one message for good, and print the command that removes the same bytes from the archive."""
    settings = settings_of(url, config, subject)
    name = full_name(stream, settings.logs.subject)

    async def look(admin: Admin) -> tuple[StreamMessage, str]:
        await existing(admin, name)
        answer = await admin.message(name, sequence)
        if answer is None:
            raise Unavailable(f"stream {name} has no message {sequence}")
        found = read_message(answer)
        return found, await _objection(admin, name, found, settings)

    found, objection = with_admin(settings, look)
    if objection and not force:
        raise Fatal(f"{found.described}\n{objection}", hint="nothing was removed; --force does it all the same")
    if not as_json:
        sys.stdout.write(f"{found.described}\n")
    confirm(yes=yes, question="Remove it?")

    async def work(admin: Admin) -> bool:
        return await admin.delete_message(name, sequence, erase=erase)

    removed = with_admin(settings, work)
    if as_json:
        sys.stdout.write(json.dumps(found.to_json() | {"stream": name, "removed": removed}) + "\n")
        return
    sys.stdout.write(f"removed message {sequence} from {name}\n" if removed else "it was gone already\n")
    if command := found.counterpart():
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
