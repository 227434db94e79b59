"""The options of `fshipper produce`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shipper.commands import AsJson, ConfigFile, DryRun, Key, LogFormat, LogLevel, NatsContext, Subject, Url
from shipper.model import Encoding

Paths = Annotated[
    list[str] | None, typer.Argument(help="Files and globs (SHIPPER_FILE).", metavar="PATH"), Key("producer.files")
]
HostName = Annotated[
    str | None,
    typer.Option(help="Name of this host (HOSTNAME)."),
    Key("producer.host"),
]
Partitions = Annotated[
    int | None, typer.Option(help="Number of partitions (SHIPPER_PARTITIONS)."), Key("logs.partitions")
]
Exclude = Annotated[
    list[str] | None, typer.Option(help="Globs of files not to ship (SHIPPER_EXCLUDE)."), Key("producer.exclude")
]
CheckpointDirectory = Annotated[
    Path | None, typer.Option(help="Directory of the checkpoint (SHIPPER_STATE)."), Key("producer.state")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOptions:
    """Ship log files to the streams: every line once, in order, byte for byte, through kill -9 at any time.

    --dry-run prints what would be read, from which byte, and what not and why; --json is for --dry-run only.
    """

    paths: Paths = None
    once: Annotated[bool, typer.Option("--once", help="Ship to the ends of the files, wait for every ack, end.")] = (
        False
    )
    url: Url = None
    nats_context: NatsContext = None
    host: HostName = None
    partitions: Partitions = None
    subject: Subject = None
    exclude: Exclude = None
    link_roots: Annotated[
        list[str] | None,
        typer.Option(help="Follow links of any owner to files below a directory (SHIPPER_LINK_ROOTS)."),
        Key("producer.link_roots"),
    ] = None
    encoding: Annotated[
        Encoding | None,
        typer.Option(help="zstd, gzip, identity; plain: a message a line (SHIPPER_ENCODING)."),
        Key("producer.encoding"),
    ] = None
    state: CheckpointDirectory = None
    start_at_end: Annotated[
        bool | None,
        typer.Option("--start-at-end", help="Skip the content that files have at the very first start."),
        Key("producer.start_at_end"),
    ] = None
    block: Annotated[
        str | None, typer.Option(help="Most bytes of lines in a message (SHIPPER_BLOCK)."), Key("producer.block")
    ] = None
    window: Annotated[
        str | None, typer.Option(help="Most bytes in flight (SHIPPER_WINDOW)."), Key("producer.window")
    ] = None
    max_delay: Annotated[
        str | None,
        typer.Option(help="Wait at most so long for more lines (SHIPPER_MAX_DELAY)."),
        Key("producer.max_delay"),
    ] = None
    poll: Annotated[
        str | None,
        typer.Option(help="Scan interval where notifications do not work (SHIPPER_POLL)."),
        Key("producer.poll"),
    ] = None
    no_watch: Annotated[bool, typer.Option("--no-watch", help="Scan at intervals only, without notifications.")] = False
    listen: Annotated[
        str | None,
        typer.Option(help="host:port of /metrics, /healthz, /readyz (SHIPPER_LISTEN)."),
        Key("producer.listen"),
    ] = None
    partial_after: Annotated[
        str | None,
        typer.Option(help="Ship a last line without newline after so much silence; 0: never (SHIPPER_PARTIAL_AFTER)."),
        Key("producer.partial_after"),
    ] = None
    ignore_older: Annotated[
        str | None,
        typer.Option(help="Skip the content of files that are unchanged for so long, for example 7d."),
        Key("producer.ignore_older"),
    ] = None
    delete_archived: Annotated[
        str | None,
        typer.Option(help="Delete rotated files so long after the archive has all of them, for example 1h."),
        Key("producer.delete_archived"),
    ] = None
    open_files: Annotated[
        int | None, typer.Option(help="Most files that are open at a time."), Key("producer.open_files")
    ] = None
    rate: Annotated[
        str | None,
        typer.Option(help="Most bytes a second, for example 10MB."),
        Key("producer.rate"),
    ] = None
    read_order: Annotated[
        str | None, typer.Option(help="fair: all files in turn; oldest: the oldest first."), Key("producer.read_order")
    ] = None
    keep_lines: Annotated[
        list[str] | None,
        typer.Option(help="Ship only lines that match a regular expression."),
        Key("producer.keep_lines"),
    ] = None
    drop_lines: Annotated[
        list[str] | None,
        typer.Option(help="Leave out lines that match a regular expression."),
        Key("producer.drop_lines"),
    ] = None
    redact: Annotated[
        list[str] | None,
        typer.Option(help="card, token, email or a regular expression of what is blacked out."),
        Key("producer.redact"),
    ] = None
    label: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, kept with everything that is shipped."), Key("producer.labels")
    ] = None
    charset: Annotated[
        str | None, typer.Option(help="utf-16, utf-16-le, utf-16-be: what is made UTF-8."), Key("producer.charset")
    ] = None
    name: Annotated[
        str | None, typer.Option(help="Archive name of standard input (PATH -)."), Key("producer.stdin_name")
    ] = None
    syslog: Annotated[
        list[str] | None,
        typer.Option(help="Listen: udp:HOST:PORT, tcp:HOST:PORT, unix:PATH, unix-stream:PATH."),
        Key("producer.syslog"),
    ] = None
    syslog_sender: Annotated[
        str | None,
        typer.Option(help="Sender's address with --syslog: none, line (in front of each line) or file (a file each)."),
        Key("producer.syslog_sender"),
    ] = None
    journald: Annotated[
        str | None, typer.Option(help="Ship the systemd journal as text, syslog or json."), Key("producer.journald")
    ] = None
    dry_run: DryRun = False
    show_redacted: Annotated[
        bool, typer.Option("--show-redacted", help="With --dry-run: also print the lines that --redact changes.")
    ] = False
    as_json: AsJson = False
    config: ConfigFile = None
    log_format: LogFormat = None
    log_level: LogLevel = None
