"""Save streams, and make streams of what was saved."""

import contextlib
import datetime as dt
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from partitioner.backup.shelf import Saved, Shelf
from shipper.errors import ConfigError, Fatal
from shipper.jetstream.admin import Admin
from shipper.jetstream.snapshots import restore, snapshot

Json = dict[str, Any]
Began = Callable[[str, int], Callable[[int], None]]
"""Told the name of a stream and about how many bytes will pass; returns whom to tell of each piece."""


class Otherwise(NamedTuple):
    """What of a restored stream is to be other than it was; None: nothing."""

    name: str | None = None
    subjects: tuple[str, ...] | None = None
    replicas: int | None = None


async def back_up(admin: Admin, shelf: Shelf, names: Sequence[str], *, consumers: bool, began: Began) -> list[Saved]:
    """Save each of the streams `names`, one after the other, and complete the backup."""
    saved = [await _save(admin, shelf, name, consumers, began) for name in names]
    made = dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    shelf.complete(saved, made=made, server=str(admin.connection.client.connected_server_version))
    return saved


async def _save(admin: Admin, shelf: Shelf, name: str, consumers: bool, began: Began) -> Saved:
    heads: list[Json] = []
    told: Callable[[int], None] | None = None
    chunks = snapshot(admin.connection, name, consumers=consumers, begun=heads.append)
    with shelf.writing(name) as file:
        async with contextlib.aclosing(chunks):  # type: ignore[type-var]
            async for chunk in chunks:
                told = told or began(name, int(heads[0]["state"]["bytes"]))
                file.write(chunk)
                told(len(chunk))
        return file.finish({key: heads[0][key] for key in ("config", "state")})


async def bring_back(
    admin: Admin, shelf: Shelf, chosen: Sequence[Saved], *, otherwise: Otherwise, began: Began
) -> list[Json]:
    """Make each of `chosen` a stream of the server; all files are proven, and all names free, before the first is.

    Raises:
        Fatal: a file is damaged, or what the server made of it is not what was saved. ConfigError: a name is taken.
    """
    taken = {str(info["config"]["name"]): info["config"].get("subjects") or [] for info in await admin.streams()}
    heads = [_changed(shelf.head(saved), otherwise, taken) for saved in chosen]
    for saved in chosen:
        shelf.check(saved)
    return [await _bring_back(admin, shelf, saved, head, began) for saved, head in zip(chosen, heads, strict=True)]


async def _bring_back(admin: Admin, shelf: Shelf, saved: Saved, head: Json, began: Began) -> Json:
    name = str(head["config"]["name"])
    made = await restore(admin.connection, head, shelf.chunks(saved), began(name, saved.octets))
    state, config = made["state"], head["config"]
    fades = bool(config.get("max_age") or config.get("allow_msg_ttl"))  # what is too old goes at once
    if state["last_seq"] != saved.last_seq or (state["messages"] != saved.messages and not fades):
        raise Fatal(
            f"stream {name} was restored, but holds {state['messages']} messages up to {state['last_seq']},"
            f" where {saved.messages} up to {saved.last_seq} were saved"
        )
    return made


def _changed(head: Json, otherwise: Otherwise, taken: dict[str, list[str]]) -> Json:
    """`head` under the name, subjects and replicas that are asked for."""
    config = dict(head["config"])
    config["name"] = otherwise.name or config["name"]
    if config["name"] in taken:
        raise ConfigError(
            f"the server has a stream {config['name']} already; nothing was restored",
            hint="restore it under another name (--as NAME), or delete that one first",
        )
    if otherwise.subjects is not None:
        config["subjects"] = list(otherwise.subjects)
    elif otherwise.name and _are_taken(config.get("subjects") or (), taken):
        config["subjects"] = []  # the server gives it its name as a subject
    if otherwise.replicas is not None:
        config["num_replicas"] = otherwise.replicas
    return head | {"config": config}


def _are_taken(subjects: Collection[str], taken: dict[str, list[str]]) -> bool:
    """Whether another stream has one of these very subjects; others that overlap are the server's to refuse."""
    return any(not set(subjects).isdisjoint(others) for others in taken.values())
