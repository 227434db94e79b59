"""One message as people see it before it is taken out. Pure."""

import base64
from dataclasses import dataclass
from typing import Any

from shipper import codec
from shipper.errors import Poison
from shipper.jetstream.admin import Json
from shipper.model import Block
from shipper.subjects import parse_log_subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What a stream holds under a number."""

    sequence: int
    subject: str
    time: str
    octets: int  #: of the payload
    block: Block | None = None  #: None: it is a plain message, or none of ours
    host: str = ""

    @property
    def described(self) -> str:
        """One line."""
        what = f"{self.octets} bytes"
        if self.block is not None:
            what += f": bytes {self.block.span} of {self.block.file}"
        return f"message {self.sequence} of {self.subject}, stored {self.time}, {what}"

    def counterpart(self) -> str:
        """The command that takes the same out of the archive; empty where nobody can name it."""
        if self.block is None:
            return ""
        span = f"{self.block.span.start}-{self.block.span.end}"
        return f"fshipper redact --host {self.host} --source {self.block.source} --span {span}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        found: dict[str, Any] = {"sequence": self.sequence, "subject": self.subject, "time": self.time}
        found |= {"bytes": self.octets, "host": self.host}
        if self.block is not None:
            found |= {"file": self.block.file, "source": self.block.source, "span": list(self.block.span)}
        return found


def read_message(answer: Json) -> Message:
    """A message as the server's API tells of it."""
    headers = _headers(base64.b64decode(answer.get("hdrs", "")))
    block, host = None, ""
    try:
        host = parse_log_subject(str(answer["subject"])).host
        block = None if codec.is_plain(headers) else codec.from_headers(headers)
    except Poison:
        pass
    octets = len(base64.b64decode(answer.get("data", "")))
    return Message(
        sequence=int(answer["seq"]),
        subject=str(answer["subject"]),
        time=str(answer["time"]),
        octets=octets,
        block=block,
        host=host,
    )


def _headers(raw: bytes) -> dict[str, str]:
    lines = raw.decode("utf-8", "replace").split("\r\n")[1:]
    return {name.strip(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
