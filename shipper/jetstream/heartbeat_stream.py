"""The newest heartbeat of each host, read repeatedly: each time only new messages.

It uses direct gets, which leave no consumer at the server.
"""

from typing import NamedTuple

from shipper.errors import ConfigError
from shipper.heartbeat import beats_config
from shipper.jetstream.connection import ApiError, Connection
from shipper.jetstream.direct_get import direct_batch, nanoseconds
from shipper.model import Stored
from shipper.subjects import beat_subject, beats_stream

BATCH = 500
ANSWER_SECONDS = 5.0


class HeartbeatUpdate(NamedTuple):
    """The new heartbeats of one read."""

    now_ns: int  #: the server's clock, which stamped the heartbeats, too
    beats: list[Stored]
    complete: bool  #: these are all heartbeats; else those that came since the last read


class HeartbeatReader:
    """The heartbeats of the hosts of `prefix`, over a connection that it does not own."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix
        self._stream = beats_stream(prefix)
        self._created = ""
        self._next = 1

    async def make(self) -> None:
        """Create the stream; nothing changes where it exists.

        Raises ConfigError: the server does not want it so. SessionLost: or this user may not.
        """
        try:
            await self._connection.api(f"STREAM.CREATE.{self._stream}", beats_config(self._prefix))
        except ApiError as error:
            raise ConfigError(f"the stream {self._stream} cannot be made: {error}") from None

    async def poll(self, known: int = 0) -> HeartbeatUpdate:
        """The heartbeats since the last read; all of them, if there are fewer hosts than `known`.

        Raises StreamMissing: the stream was not created. SessionLost: the server does not answer.
        """
        info = await self._connection.api(f"STREAM.INFO.{self._stream}")
        state = info["state"]
        is_another = info["created"] != self._created or int(state["last_seq"]) < self._next - 1
        complete = is_another or int(state.get("num_subjects", 0)) < known
        if complete:
            self._next = 1
        beats: list[Stored] = []
        while True:
            what = {"seq": self._next, "batch": BATCH, "next_by_subj": beat_subject(self._prefix, ">")}
            more = await direct_batch(self._connection, self._stream, what, within=ANSWER_SECONDS)
            beats += more
            if more:
                self._next = more[-1].sequence + 1
            if not more:  # the server may end a batch earlier, by its bytes
                break
        self._created = str(info["created"])
        return HeartbeatUpdate(nanoseconds(info["ts"]), beats, complete)

    async def forget(self, host: str) -> bool:
        """Remove what is known of a host; False: nothing was."""
        body = {"filter": beat_subject(self._prefix, host)}
        answer = await self._connection.api(f"STREAM.PURGE.{self._stream}", body)
        return bool(answer.get("purged"))
