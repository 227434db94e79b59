"""`fshipper partition backup|restore`."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from partitioner.backup.transfer import BackupDirectory, Began, RestoreOverrides, SavedStream, back_up, bring_back
from partitioner.cli_options import AsJson, Config, Subject, Url, numbers_of, settings_of, with_admin
from partitioner.desired.document import is_ours
from shipper.errors import Unavailable, UsageError
from shipper.jetstream.admin import Admin
from shipper.settings import Settings
from shipper.subjects import stream_name
from shipper.units import counted, format_bytes

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Where the backup is.")]
Streams = Annotated[list[str] | None, typer.Argument(metavar="[STREAM]...", help="Only these streams.")]
Partitions = Annotated[str | None, typer.Option(help="Only the streams of these partitions: 0,2 or 0-3.")]


def register(app: typer.Typer) -> None:
    """Add the verbs of this package."""
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    directory: Directory,
    streams: Streams = None,
    *,
    partitions: Partitions = None,
    every: Annotated[bool, typer.Option("--all", help="Every stream of the account, not only fshipper's.")] = False,
    consumers: Annotated[bool, typer.Option(help="Save the consumers and how far they are, too.")] = True,
    replace: Annotated[bool, typer.Option("--replace", help="Over the backup that is in DIR.")] = False,
    as_json: AsJson = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Save streams with their consumers to DIR, while they are in use."""
    settings = settings_of(url, config, subject)
    store = BackupDirectory(directory)

    async def work(admin: Admin) -> list[SavedStream]:
        there = [str(info["config"]["name"]) for info in await admin.streams()]
        ours = [name for name in there if every or is_ours(name, settings.logs.subject)]
        names = _chosen(there, ours, streams, partitions, settings)
        store.begin(replacing=replace or store.directory in begun)
        begun.add(store.directory)
        with _progress() as began:
            return await back_up(admin, store, names, consumers=consumers, began=began)

    begun: set[Path] = set()  # what an attempt before this one left may be replaced
    saved = with_admin(settings, work)
    if as_json:
        sys.stdout.write(json.dumps([asdict(each) for each in saved], indent=2) + "\n")
    else:
        for each in saved:
            sys.stdout.write(
                f"saved stream {each.name} ({counted(each.messages, 'message')}, {format_bytes(each.octets)})\n"
            )


def restore(
    directory: Directory,
    streams: Streams = None,
    *,
    partitions: Partitions = None,
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Another name for the one stream.")] = None,
    subjects: Annotated[
        str | None, typer.Option(help="Other subjects for the one stream, separated by commas.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=5, help="Copies in a cluster; as saved if left out.")
    ] = None,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Only those that the server does not have.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Make streams of the backup in DIR, with their consumers; streams that exist are never touched."""
    settings = settings_of(url, config, subject)
    store = BackupDirectory(directory)
    known = {saved.name: saved for saved in store.streams()}
    chosen = [known[each] for each in _chosen(list(known), list(known), streams, partitions, settings)]
    if (name or subjects) and len(chosen) != 1:
        raise UsageError(f"--as and --subjects are for one stream, these are {len(chosen)}", hint="name the one")
    otherwise = RestoreOverrides(name, tuple(subjects.split(",")) if subjects else None, replicas)

    async def work(admin: Admin) -> tuple[list[SavedStream], list[dict[str, object]]]:
        there = {str(info["config"]["name"]) for info in await admin.streams()} if skip_existing else set()
        left = [saved for saved in chosen if (name or saved.name) not in there]
        with _progress() as began:
            return left, await bring_back(admin, store, left, otherwise=otherwise, began=began)

    left, made = with_admin(settings, work, attempts=1)
    if as_json:
        sys.stdout.write(json.dumps(made, indent=2) + "\n")
        return
    for saved, info in zip(left, made, strict=True):
        stream: dict[str, object] = info["config"]  # type: ignore[assignment]
        other = f" as {stream['name']}" if stream["name"] != saved.name else ""
        sys.stdout.write(f"restored stream {saved.name}{other} ({counted(saved.messages, 'message')})\n")


def _chosen(
    there: Sequence[str], ours: Sequence[str], streams: Sequence[str] | None, partitions: str | None, settings: Settings
) -> list[str]:
    """The selected streams. Raises Unavailable: one of them does not exist, or there is none."""
    wanted = list(streams or ())
    wanted += [stream_name(settings.logs.subject, each) for each in numbers_of(partitions)]
    names = list(dict.fromkeys(wanted)) or list(ours)
    if missing := [each for each in names if each not in there]:
        raise Unavailable(f"there is no stream {missing[0]}", hint=f"there are {', '.join(there) or 'none'}")
    if not names:
        raise Unavailable("there is no stream to save", hint="--all takes those of others, too")
    return names


@contextlib.contextmanager
def _progress() -> Iterator[Began]:
    """A bar a stream on a terminal; elsewhere nothing."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:

        def began(name: str, octets: int) -> Callable[[int], None]:
            task = progress.add_task(name, total=octets)
            return lambda more: progress.advance(task, more)

        yield began
        for task in progress.tasks:  # what a stream takes packed is not what it takes on the server
            progress.update(task.id, total=max(task.completed, 1), completed=max(task.completed, 1))
