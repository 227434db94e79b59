"""`fshipper partition purge|rm-message`: messages are taken out of a stream, and nothing that is not archived."""

import datetime as dt
import json
import sys
from typing import Annotated

import typer

from partitioner.asking import confirm
from partitioner.options import Config, Json, Subject, Url, Yes, settings_of, with_admin
from partitioner.streams.message import Message, read_message
from partitioner.streams.moments import moment_of, rfc3339
from partitioner.streams.naming import existing, full_name
from partitioner.streams.reach import Reach, reach_of
from shipper.errors import Fatal, Unavailable, UsageError
from shipper.jetstream.admin import Admin
from shipper.settings import Settings
from shipper.subjects import partition_of_stream
from shipper.units import counted

Stream = Annotated[str, typer.Argument(metavar="STREAM", help="A stream by its name, or a partition: p3.")]
Force = Annotated[bool, typer.Option("--force", help="Also what is not archived: it is lost, or sent again.")]


def register(app: typer.Typer) -> None:
    """Add these verbs."""
    app.command("purge")(purge)
    app.command("rm-message")(rm_message)


def purge(
    stream: Stream,
    *,
    before: Annotated[str | None, typer.Option(help="What was stored before: 24h (ago), 2026-11-20, RFC 3339.")] = None,
    below: Annotated[int | None, typer.Option("--below", min=1, help="What has a lower sequence.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of it.")] = False,
    force: Force = False,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Remove old messages from a stream; of a partition only what is archived, unless --force is given."""
    if (before is not None) + (below is not None) + everything != 1:
        raise UsageError("say what to remove", hint="one of --before TIME, --below SEQUENCE, --all")
    settings = settings_of(url, config, subject)
    name = full_name(stream, settings.logs.subject)
    moment = rfc3339(moment_of(before, dt.datetime.now(dt.UTC), "--before")) if before is not None else ""

    async def look(admin: Admin) -> tuple[int, int, Reach]:
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
    stream: Stream,
    sequence: Annotated[int, typer.Argument(min=1, metavar="SEQ", help="Its number in the stream.")],
    *,
    erase: Annotated[bool, typer.Option(help="Overwrite its bytes on the server's disk.")] = True,
    force: Force = False,
    yes: Yes = False,
    as_json: Json = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Remove one message for good, and say what takes the same out of the archive."""
    settings = settings_of(url, config, subject)
    name = full_name(stream, settings.logs.subject)

    async def look(admin: Admin) -> tuple[Message, str]:
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


async def _objection(admin: Admin, name: str, found: Message, settings: Settings) -> str:
    """Why removing a message would not do what it is meant to; empty: it would."""
    if partition_of_stream(settings.logs.subject, name) is None:
        return ""
    reach = await reach_of(admin, name, subject=settings.logs.subject)
    if found.sequence >= reach.archived:
        return "it is not archived yet: its producer would be asked for it, and send it again"
    newest = await admin.newest_of(name, found.subject)
    if newest is not None and int(newest["seq"]) == found.sequence:
        return (
            "it is the newest of its host: without it the producer thinks that the server lost data, and sends it again"
        )
    return ""
