"""nats-py's client, made to survive what anybody may publish.

A subject or an inline status that is no UTF-8 raises inside nats-py's parser and ends the connection; JetStream hands
the message out again to the next session, and so on for ever. One such message must not stop a partition.
"""

from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

UNREADABLE = {"Log-Unreadable": "the message's headers are no UTF-8"}
"""Stands for headers that cannot be decoded: an unknown header of ours, so the message becomes a dead letter."""


class TolerantClient(Client):
    """Undecodable bytes of a subject arrive as surrogates, as `os.fsdecode` writes them."""

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        return self.msg_class(
            subject=bytes(subject).decode("utf-8", "surrogateescape"),
            reply=bytes(reply).decode("utf-8", "surrogateescape"),
            data=data,
            headers=headers,
            _client=self,
            _sid=sid,
        )

    async def _process_headers(self, headers: Any) -> dict[str, str] | None:
        try:
            return await super()._process_headers(headers)
        except UnicodeDecodeError:
            return dict(UNREADABLE)
