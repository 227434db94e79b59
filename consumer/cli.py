"""`fshipper consume`: reads the settings and runs a collector."""

import asyncio
import gc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shipper.errors import UsageError
from shipper.interrupts import importing

if TYPE_CHECKING:
    from shipper.config import Layer
    from shipper.settings import Settings

GARBAGE_THRESHOLD = 50_000
"""New objects until the garbage collector runs. A batch makes thousands and no cycle; frequent runs cost 20 % CPU."""

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def consume(
    drain: Annotated[bool, typer.Option("--drain", help="Write everything that is in the streams, then end")] = False,
    seal: Annotated[bool, typer.Option("--seal", help="With --drain: seal what is open, so a report can run")] = False,
    directory: Annotated[Path | None, typer.Option(help="The archive (SHIPPER_DIRECTORY)")] = None,
    read_partitions: Annotated[
        str | None, typer.Option("--partitions", help="Only these, as 0,2 or 0-3 (SHIPPER_READ_PARTITIONS)")
    ] = None,
    output: Annotated[str | None, typer.Option(help="File of plain messages, or a template (SHIPPER_OUTPUT)")] = None,
    serve_partitions: Annotated[
        bool | None,
        typer.Option("--serve-partitions", help="Create streams when producers request them (small installations)"),
    ] = None,
    url: Annotated[str | None, typer.Option(help="NATS server, or several with commas (NATS_URL)")] = None,
    subject: Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT)")] = None,
    name: Annotated[str | None, typer.Option(help="Name of this collector in manifests (SHIPPER_COLLECTOR)")] = None,
    state: Annotated[Path | None, typer.Option(help="Directory of the journals (SHIPPER_STATE)")] = None,
    codec: Annotated[str | None, typer.Option(help="zstd, gzip or none for sealed segments (SHIPPER_CODEC)")] = None,
    listen: Annotated[
        str | None, typer.Option(help="host:port of /metrics, /healthz, /readyz (SHIPPER_LISTEN)")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """Write the streams to the archive, one file per host and log file: exactly once and in order.

    You can start several collectors, on one or more machines: they share the partitions and take over from each other.
    """
    if seal and not drain:
        raise UsageError("--seal goes with --drain", hint="a collector that runs on seals by itself")
    flags: Layer = {
        "collector.directory": directory,
        "collector.read_partitions": read_partitions,
        "collector.output": output,
        "collector.serve_partitions": serve_partitions,
        "collector.name": name,
        "collector.state": state,
        "collector.codec": codec,
        "collector.listen": listen,
        "logs.subject": subject,
        "nats.url": url,
        "log.format": log_format,
        "log.level": log_level,
    }

    with importing():
        from consumer.app import run  # noqa: PLC0415 - `--help` needs none of it, and it takes twice as long as the rest
        from consumer.model import Until  # noqa: PLC0415
        from shipper.config import load, places  # noqa: PLC0415
        from shipper.durable_files import readable_by  # noqa: PLC0415
        from shipper.lifecycle import give_way, keep_freed_memory  # noqa: PLC0415
        from shipper.telemetry import level_of_run, set_up_logging  # noqa: PLC0415

    def read() -> "Settings":
        return load(flags, config=config)

    settings = read()
    level, style = settings.log.level, settings.log.format
    if drain:
        level = level_of_run(level, is_chosen="log.level" in places(flags, config=config), style=style)
    set_up_logging(style=style, level=level)
    until = (Until.SEALED if seal else Until.DRAINED) if drain else Until.STOPPED
    gc.set_threshold(GARBAGE_THRESHOLD)
    keep_freed_memory()
    give_way()
    with readable_by(settings.collector.readable_by):
        asyncio.run(run(settings, until, read=read))
