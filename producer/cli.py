"""`fshipper produce`: settings in, one pipeline out."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shipper.errors import UsageError
from shipper.interrupts import importing
from shipper.model import Encoding

if TYPE_CHECKING:
    from shipper.config import Layer
    from shipper.settings import Settings

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def produce(
    paths: Annotated[list[str] | None, typer.Argument(help="Files and globs (SHIPPER_FILE)", metavar="PATH")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Ship to the ends of the files, wait for every ack, end")
    ] = False,
    url: Annotated[str | None, typer.Option(help="NATS server, or several with commas (NATS_URL)")] = None,
    host: Annotated[str | None, typer.Option(help="Name of this host (HOSTNAME)")] = None,
    partitions: Annotated[int | None, typer.Option(help="Number of partitions (SHIPPER_PARTITIONS)")] = None,
    subject: Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT)")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Globs of files not to ship (SHIPPER_EXCLUDE)")] = None,
    link_roots: Annotated[
        list[str] | None, typer.Option(help="Follow links of any owner to files below a directory (SHIPPER_LINK_ROOTS)")
    ] = None,
    encoding: Annotated[
        Encoding | None, typer.Option(help="zstd, gzip, identity; plain: a message a line (SHIPPER_ENCODING)")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Directory of the checkpoint (SHIPPER_STATE)")] = None,
    start_at_end: Annotated[
        bool | None, typer.Option("--start-at-end", help="Skip the content that files have at the very first start")
    ] = None,
    block: Annotated[str | None, typer.Option(help="Most bytes of lines in a message (SHIPPER_BLOCK)")] = None,
    window: Annotated[str | None, typer.Option(help="Most bytes in flight (SHIPPER_WINDOW)")] = None,
    poll: Annotated[
        str | None, typer.Option(help="Scan interval where notifications do not work (SHIPPER_POLL)")
    ] = None,
    no_watch: Annotated[bool, typer.Option("--no-watch", help="Scan at intervals only, without notifications")] = False,
    listen: Annotated[
        str | None, typer.Option(help="host:port of /metrics, /healthz, /readyz (SHIPPER_LISTEN)")
    ] = None,
    partial_after: Annotated[
        str | None,
        typer.Option(help="Ship a last line without newline after so much silence; 0: never (SHIPPER_PARTIAL_AFTER)"),
    ] = None,
    ignore_older: Annotated[
        str | None, typer.Option(help="Skip the content of files that are unchanged for so long, for example 7d")
    ] = None,
    delete_archived: Annotated[
        str | None, typer.Option(help="Delete rotated files so long after the archive has all of them, for example 1h")
    ] = None,
    open_files: Annotated[int | None, typer.Option(help="Most files that are open at a time")] = None,
    rate: Annotated[str | None, typer.Option(help="Most bytes a second, for example 10MB")] = None,
    read_order: Annotated[str | None, typer.Option(help="fair: all files in turn; oldest: the oldest first")] = None,
    keep_lines: Annotated[
        list[str] | None, typer.Option(help="Ship only lines that match a regular expression")
    ] = None,
    drop_lines: Annotated[
        list[str] | None, typer.Option(help="Leave out lines that match a regular expression")
    ] = None,
    redact: Annotated[
        list[str] | None, typer.Option(help="card, token, email or a regular expression of what is blacked out")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(help="NAME=VALUE, kept with everything that is shipped")] = None,
    charset: Annotated[str | None, typer.Option(help="utf-16, utf-16-le, utf-16-be: what is made UTF-8")] = None,
    name: Annotated[str | None, typer.Option(help="Archive name of standard input (PATH -)")] = None,
    syslog: Annotated[
        list[str] | None, typer.Option(help="Listen: udp:HOST:PORT, tcp:HOST:PORT, unix:PATH, unix-stream:PATH")
    ] = None,
    syslog_sender: Annotated[
        str | None,
        typer.Option(help="Sender's address with --syslog: none, line (in front of each line) or file (a file each)"),
    ] = None,
    journald: Annotated[str | None, typer.Option(help="Ship the systemd journal as text, syslog or json")] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print what would be read, from which byte, and what not and why; send nothing"),
    ] = False,
    show_redacted: Annotated[
        bool, typer.Option("--show-redacted", help="With --dry-run: also print the lines that --redact changes")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same for scripts; with --dry-run")] = False,
    config: Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """Ship log files to the streams: every line once, in order, byte for byte, through kill -9 at any time."""
    flags: Layer = {
        "producer.files": tuple(paths) if paths else None,
        "producer.host": host,
        "producer.exclude": tuple(exclude) if exclude else None,
        "producer.link_roots": tuple(link_roots) if link_roots else None,
        "producer.encoding": encoding,
        "producer.state": state,
        "producer.start_at_end": start_at_end,
        "producer.block": block,
        "producer.window": window,
        "producer.poll": poll,
        "producer.watch": False if no_watch else None,
        "producer.listen": listen,
        "producer.partial_after": partial_after,
        "producer.ignore_older": ignore_older,
        "producer.delete_archived": delete_archived,
        "producer.open_files": open_files,
        "producer.rate": rate,
        "producer.read_order": read_order,
        "producer.keep_lines": tuple(keep_lines) if keep_lines else None,
        "producer.drop_lines": tuple(drop_lines) if drop_lines else None,
        "producer.redact": tuple(redact) if redact else None,
        "producer.labels": tuple(label) if label else None,
        "producer.charset": charset,
        "producer.stdin_name": name,
        "producer.syslog": tuple(syslog) if syslog else None,
        "producer.syslog_sender": syslog_sender,
        "producer.journald": journald,
        "logs.partitions": partitions,
        "logs.subject": subject,
        "nats.url": url,
        "log.format": log_format,
        "log.level": log_level,
    }

    with importing():
        from producer.app import run  # noqa: PLC0415 - `--help` needs none of it, and it takes twice as long as the rest
        from shipper.config import load, places  # noqa: PLC0415
        from shipper.telemetry import level_of_run, set_up_logging  # noqa: PLC0415

    read = partial(load, flags, config=config)
    settings = read()
    if dry_run:
        return _dry_run(settings, once=once, show_redacted=show_redacted, as_json=as_json)
    if as_json:
        raise UsageError("--json goes with --dry-run only")
    if show_redacted:
        raise UsageError("--show-redacted goes with --dry-run only")
    level, style = settings.log.level, settings.log.format
    if once:
        level = level_of_run(level, is_chosen="log.level" in places(flags, config=config), style=style)
    set_up_logging(style=style, level=level)
    return run(settings, once=once, read=read)


def _dry_run(settings: "Settings", *, once: bool, show_redacted: bool, as_json: bool) -> None:
    with importing():
        # Its tables would double what a producer takes to start.
        from producer.preflight.dry_run import report  # noqa: PLC0415
        from producer.preflight.redacted_lines import redacted_lines  # noqa: PLC0415
        from producer.preflight.report import print_report  # noqa: PLC0415
        from shipper.telemetry import set_up_logging  # noqa: PLC0415

    set_up_logging(style=settings.log.format, level="critical")  # what it does to the copy is no event
    found = report(settings, once=once)
    reads = [(each.path, each.start) for each in found.reads]
    redacted = redacted_lines(settings.producer, reads) if show_redacted else None
    return print_report(found, redacted, as_json=as_json)
