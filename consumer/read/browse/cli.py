"""`fshipper browse`: a page on this machine that searches and follows the logs of all hosts."""

from pathlib import Path
from typing import Annotated

import typer

from shipper.interrupts import importing

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def browse(
    *,
    archive: Annotated[
        Path | None, typer.Option("--archive", "--directory", help="The archive (SHIPPER_DIRECTORY)")
    ] = None,
    listen: Annotated[str | None, typer.Option(help="host:port of the page (SHIPPER_LISTEN)")] = None,
    host: Annotated[
        list[str] | None, typer.Option(help="Another host name of the page, as a proxy has it; may repeat")
    ] = None,
    trust_user_header: Annotated[
        str | None, typer.Option(help="Header in which a proxy on this machine sends its user: X-Forwarded-User")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser of this machine")] = False,
    config: Annotated[Path | None, typer.Option(help="TOML file (SHIPPER_CONFIG)")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """Serve a page that searches the archive and follows what arrives, for browsers of this machine.

    Prints a link that works once; SIGHUP prints another one. Each search is a process of its own, with limits, and ends
    with its connection.
    """
    flags = {
        "collector.directory": archive, "browse.listen": listen, "browse.allowed_hosts": tuple(host) if host else None,
        "browse.trust_user_header": trust_user_header, "log.format": log_format, "log.level": log_level,
    }  # fmt: skip
    with importing():
        from consumer.read.browse.app import run  # noqa: PLC0415 - `--help` needs none of it
        from shipper.config import load  # noqa: PLC0415

    run(load(flags, config=config), config, open_page=open_page)
