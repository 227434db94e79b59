"""The stream of an edge site: read and purged over the leaf link, which may be down at any time."""

import json
from typing import Any

import nats.errors

from shipper.errors import RightMissing, SessionLost
from shipper.jetstream.connection import API, GRANT_HINT, ApiError, Connection, describe
from shipper.jetstream.direct_get import NOT_FOUND, subject_of
from shipper.jetstream.fast_client import Message
from shipper.model import StreamState
from shipper.stream_source import Origin, origin_of, sequence_at_origin
from shipper.subjects import is_closed

ANSWER_SECONDS = 10.0
"""A link to a ship is slow, and a whole message may have to come over it."""
OURS = "Nats-"
"""Headers that the servers write: the same message has others in each stream."""


class LeafStream:
    """The stream `origin` of a site, from which `stream` of the centre is sourced; over a connection to the centre."""

    def __init__(self, connection: Connection, stream: str, origin: Origin) -> None:
        self._connection = connection
        self._stream = stream
        self.origin = origin
        self._known: tuple[int, int | None] = (0, 0)  # the last answer of `at_origin`

    async def at_origin(self, sequence: int) -> int | None:
        """The sequence that the centre's message `sequence` has at the site; None: the centre does not hold it."""
        if self._known[0] != sequence:
            found = await self._read(API, self._stream, sequence)
            self._known = (sequence, sequence_at_origin(found.headers or {}) if found else None)
        return self._known[1]

    async def state(self) -> StreamState:
        """What the site's stream holds now. Raises SessionLost: the site does not answer; RightMissing."""
        return stream_state(await self._api("STREAM.INFO"))

    async def purge(self, below: int) -> int | None:
        """Remove what the site has of the centre's messages below `below`, but the last one of them; how many.

        None: another message has its sequence, so the archived position is unknown. Raises as `state`.
        """
        archived = await self._read(API, self._stream, below - 1)
        there = sequence_at_origin(archived.headers or {}) if archived else None
        if archived is None or there is None or there <= (await self.state()).first_sequence:
            return 0
        found = await self._read(self.origin.api, self.origin.stream, there)
        if found is None:
            return 0  # it is purged, or the site lost it: what it wrote since is not archived
        if not _is_same(archived, found):
            return None
        return int((await self._api("STREAM.PURGE", {"seq": there}))["purged"])

    async def _read(self, api: str, stream: str, sequence: int) -> Message | None:
        """One message; None: the stream does not hold it."""
        found = await self._ask(subject_of(stream, api=api), {"seq": sequence})
        if found.status and found.status != NOT_FOUND:
            raise SessionLost(f"direct get of {stream}: {found.status}")
        return None if found.status else found

    async def _ask(self, subject: str, body: dict[str, Any] | None = None) -> Message:
        """The reply of the server that has the stream; a missing right does not end the session."""
        connection, refused = self._connection, subject.lower()  # nats-py reports refusals in lower case
        connection.dispensable.add(refused)
        try:
            return await connection.request(subject, json.dumps(body).encode() if body else b"", within=ANSWER_SECONDS)
        except nats.errors.NoRespondersError:
            raise SessionLost(f"{self.origin.domain} does not answer") from None
        except SessionLost as error:
            if refused in connection.refused:
                raise RightMissing(f"no right to publish to {subject!r}", hint=GRANT_HINT) from None
            raise SessionLost(f"{self.origin.domain}: {describe(error)}") from None

    async def _api(self, verb: str, body: dict[str, Any] | None = None) -> Any:
        """The site's answer to an API request about its stream."""
        content = json.loads((await self._ask(f"{self.origin.api}.{verb}.{self.origin.stream}", body)).data)
        if "error" in content:
            raise ApiError(f"{verb} at {self.origin.domain}", content["error"])
        return content


def stream_state(info: dict[str, Any]) -> StreamState:
    """The state of a stream from the reply of a server."""
    state = info["state"]
    return StreamState(
        first_sequence=state["first_seq"],
        last_sequence=state["last_seq"],
        messages=state["messages"],
        bytes=state["bytes"],
        max_bytes=info["config"].get("max_bytes", -1),
        created=info["created"],
        site=origin.domain if (origin := origin_of(info["config"])) else "",
        is_closed=is_closed(info["config"].get("subjects") or ()),
    )


def _is_same(one: Message, other: Message) -> bool:
    """Whether two streams hold the same message, but for what each server noted on it."""
    mine, theirs = one.headers or {}, other.headers or {}
    names = {"Nats-Subject", *(name for name in (*mine, *theirs) if not name.startswith(OURS))}
    return one.data == other.data and all(mine.get(name) == theirs.get(name) for name in names)
