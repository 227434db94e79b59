"""`fshipper search -f`: what is not archived yet, and what arrives."""

import asyncio
from collections.abc import Callable

from consumer.logview.file_index import Part
from consumer.logview.log_reader import FleetLog, Places
from consumer.logview.query import Piece, Wanted
from shipper.settings import Settings


def follow(
    settings: Settings,
    wanted: Wanted,
    parts: tuple[Part, ...],
    *,
    show: Callable[[Piece], None],
    flush: Callable[[], None],
) -> None:
    """Show what is not in `parts`, then what arrives, until this process is interrupted."""

    async def work() -> None:
        places = Places(settings=settings, archive=None)
        async with FleetLog(places, wanted, patience=60.0, name="search", archived=parts) as log:
            async for piece in log.stored(wanted.since_ns, None):
                show(piece)
            flush()
            async for piece in log.follow(flush):
                show(piece)
                flush()

    asyncio.run(work())
