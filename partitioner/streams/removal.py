"""`fshipper partition purge|rm-message`: messages are removed from a stream, and nothing that is not archived."""

import base64
import contextlib
import datetime as dt
import json
import sys
import time
from typing import NamedTuple

from partitioner.arguments import existing, full_name, with_admin
from partitioner.options import PurgeOptions, RemoveMessageOptions
from shipper import codec, moments
from shipper.commands import settings_of
from shipper.errors import Fatal, Poison, Unavailable, UsageError
from shipper.jetstream.admin import Admin, Json
from shipper.layout import NANOSECONDS
from shipper.prompts import confirm
from shipper.settings import Settings
from shipper.subjects import BUCKET_STREAM, COLLECTOR, bucket_subject, lease_key, parse_log_subject, partition_of_stream
from shipper.units import counted


def described(answer: Json) -> tuple[Json, str]:
    """A message of the server's API: as JSON for programs, and as a line."""
    lines = base64.b64decode(answer.get("hdrs", "")).decode("utf-8", "replace").split("\r\n")[1:]
    parts = [line.partition(":") for line in lines]
    headers = {name.strip(): value.strip() for name, colon, value in parts if colon}
    octets = len(base64.b64decode(answer.get("data", "")))
    found: Json = {"sequence": int(answer["seq"]), "subject": str(answer["subject"]), "time": str(answer["time"])}
    found |= {"bytes": octets, "host": ""}
    text = f"message {found['sequence']} of {found['subject']}, stored {found['time']}, {octets} bytes"
    with contextlib.suppress(Poison):  # a plain message, or none of ours
        found["host"] = parse_log_subject(found["subject"]).host
        if not codec.is_plain(headers):
            block = codec.from_headers(headers)
            found |= {"file": block.file, "source": block.source, "span": list(block.span)}
            text += f": bytes {block.span} of {block.file}"
    return found, text


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
        sys.stdout.write(json.dumps({"v": 1, "stream": name, "purged": purged, "below": end, "asked": wanted}) + "\n")
    else:
        sys.stdout.write(f"removed {counted(purged, 'message')} from {name}\n")


def rm_message(options: RemoveMessageOptions) -> None:
    """Remove one message for good, and print the command that removes the same bytes from the archive."""
    settings, sequence = settings_of(options), options.sequence
    name = full_name(options.stream, settings.logs.subject)

    async def read_state(admin: Admin) -> tuple[Json, str, str]:
        await existing(admin, name)
        answer = await admin.message(name, sequence)
        if answer is None:
            raise Unavailable(f"stream {name} has no message {sequence}")
        return *described(answer), await _objection(admin, name, answer, settings)

    found, text, objection = with_admin(settings, read_state)
    if objection and not options.force:
        raise Fatal(f"{text}\n{objection}", hint="nothing was removed; --force does it all the same")
    if not options.as_json:
        sys.stdout.write(f"{text}\n")
    confirm(yes=options.yes, question="Remove it?")
    removed = with_admin(settings, lambda admin: admin.delete_message(name, sequence, erase=options.erase))
    if options.as_json:
        sys.stdout.write(json.dumps({"v": 1, **found} | {"stream": name, "removed": removed}) + "\n")
        return
    sys.stdout.write(f"removed message {sequence} from {name}\n" if removed else "it was gone already\n")
    if "source" in found:
        start, end = found["span"]
        command = f"fshipper redact --host {found['host']} --source {found['source']} --span {start}-{end}"
        sys.stdout.write(f"the archive has it, too: {command}\n")


async def _objection(admin: Admin, name: str, found: Json, settings: Settings) -> str:
    """Why removing a message would not do what it is meant to; empty: it would."""
    if partition_of_stream(settings.logs.subject, name) is None:
        return ""
    reach = await reach_of(admin, name, subject=settings.logs.subject)
    if int(found["seq"]) >= reach.archived:
        return "it is not archived yet: the collector would request it again from its producer"
    newest = await admin.newest_of(name, str(found["subject"]))
    if newest is not None and int(newest["seq"]) == int(found["seq"]):
        return (
            "it is the newest of its host: without it the producer thinks that the server lost data, and sends it again"
        )
    return ""
