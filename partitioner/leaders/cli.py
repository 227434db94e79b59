"""`fshipper partition balance`: leaders spread evenly over the nodes of a cluster."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from partitioner.leaders.balance import Leaders, balance, look
from partitioner.leaders.spread import Led, Move
from partitioner.options import Config, Json, Url, settings_of, with_admin
from shipper.jetstream.admin import Admin
from shipper.lifecycle import Stop


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("balance")(balance_leaders)


def balance_leaders(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would move.")] = False,
    as_json: Json = False,
    url: Url = None,
    config: Config = None,
) -> None:
    """Spread the leaders of streams and consumers evenly over the nodes: no cluster does so by itself."""
    settings = settings_of(url, config, None)

    async def work(admin: Admin) -> tuple[Leaders, list[Move]]:
        before = await look(admin)
        if dry_run:
            return before, before.moves
        moved: list[Move] = []
        after = await balance(admin, Stop(), lambda move: moved.append(_said(move, as_json=as_json)))
        return after, moved

    found, moved = with_admin(settings, work)
    if as_json:
        sys.stdout.write(json.dumps(_content(found, moved), indent=1) + "\n")
        return
    if dry_run:
        for move in moved:
            _said(move, as_json=False)
    sys.stdout.write(f"streams:   {_counted(found, found.streams)}\n")
    sys.stdout.write(f"consumers: {_counted(found, found.consumers)}\n")
    if not moved:
        sys.stdout.write("the leaders are spread evenly; nothing to do\n")


def _said(move: Move, *, as_json: bool) -> Move:
    if not as_json:
        sys.stdout.write(f"{move.led.title}: {move.led.leader} -> {move.to}\n")
        sys.stdout.flush()
    return move


def _counted(found: Leaders, led: Sequence[Led]) -> str:
    return ", ".join(f"{node} leads {count}" for node, count in found.counts(led).items())


def _content(found: Leaders, moved: Sequence[Move]) -> dict[str, object]:
    return {
        "moves": [
            {"stream": each.led.stream, "consumer": each.led.consumer, "from": each.led.leader, "to": each.to}
            for each in moved
        ],
        "streams": found.counts(found.streams),
        "consumers": found.counts(found.consumers),
    }
