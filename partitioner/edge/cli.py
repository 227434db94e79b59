"""`fshipper partition edge`: the streams of an edge site, made on the site's own server."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from partitioner.agreed import make_so
from partitioner.edge.domain import checked_domain
from partitioner.edge.topology import at_site, checked_numbers, site_map
from partitioner.move.land import Land, Stored
from partitioner.options import Config, Subject, Url, Yes, numbers_of, settings_of, size_of
from partitioner.plan import Allowed
from partitioner.template import read, shipped
from partitioner.topology import Sizing
from shipper.errors import Fatal
from shipper.jetstream.connection import connect
from shipper.partition_map import PartitionMap
from shipper.settings import Settings

Numbers = Annotated[str, typer.Argument(help="The site's partitions, as 100-101: no other site's, nor the centre's.")]


def register(app: typer.Typer) -> None:
    """Put the verb among the others."""
    app.command()(edge)


def edge(
    numbers: Numbers,
    *,
    template: Annotated[Path | None, typer.Option("--template", help="Template of the streams (JSON).")] = None,
    replicas: Annotated[int | None, typer.Option(min=1, max=5, help="Copies of each stream in a cluster.")] = None,
    max_bytes: Annotated[str | None, typer.Option(help="Room of each partition: what the site keeps alone.")] = None,
    yes: Yes = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Let this server, a leaf node at an edge site, keep the lines of its hosts until the centre has them.

    In the centre: partition apply --edge DOMAIN=NUMBERS.
    """
    settings = settings_of(url, config, subject)
    chosen = checked_numbers(numbers_of(numbers, flag="partitions"))
    sizing = Sizing(replicas=replicas, max_bytes=size_of(max_bytes, "--max-bytes"))
    wanted = at_site(read(template) if template else shipped(), chosen, subject=settings.logs.subject, sizing=sizing)
    wants = site_map(chosen)
    _check_map(asyncio.run(_map(settings)), wants)
    make_so(settings, wanted, Allowed(), yes=yes)
    if asyncio.run(_map(settings, put=wants)).map != wants:
        sys.stdout.write(f"hosts here go to {numbers} (the map in the bucket)\n")


async def _map(settings: Settings, *, put: PartitionMap | None = None) -> Stored:
    """The map that was there; `put` is there behind it. Raises UsageError: the server has no domain of a site."""
    connection = await connect(settings.nats, name="fshipper partition edge", inbox="_INBOX_partitioner")
    try:
        checked_domain(str((await connection.api("INFO")).get("domain", "")))
        land = Land(connection, settings.logs.subject)
        stored = await land.map()
        if put is not None and stored.map != put:
            await land.store_map(put, expected=stored.revision)
        return stored
    finally:
        await connection.close()


def _check_map(stored: Stored, wants: PartitionMap) -> None:
    """Raise Fatal where hosts go by another map already: this is the centre, or the site got other numbers."""
    if stored.map is not None and stored.map != wants:
        raise Fatal(
            f"this server has a map of its own already (version {stored.map.version}), so it is no new edge site",
            hint="is NATS_URL the site's server? A site keeps its partitions for good",
        )
