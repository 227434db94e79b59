"""The control protocol: the messages on `ctl.up.<host>`, `ctl.down.<host>` and `ctl.ask.<host>`, and who is answered.

    request on     from               `ask`      reply
    ctl.up         producer           receipts   ReceiptsReply: what the archive holds of the host
    ctl.up         producer           stream     StreamReply: whether the partition got its stream
    ctl.up         `partition` verbs  finish     FinishReply: what is left to seal of a closed stream
    ctl.down       collector          resend     ResendReply: whether missing bytes are sent again
    ctl.down `ask` `audit --hosts`    marks      MarksReply: how far the host shipped each source
    ctl.down       `partition` verbs  place      PlaceReply: the partition that the host sends to

A collector also sends a `ReceiptsReply` on `ctl.down` without a request. Every message is one JSON object with
`"v": 1`. A reader ignores fields that it does not know, and requests of an unknown kind get no reply.

Every host may publish on its own `ctl.up` subject, with any content and any reply subject. Therefore `decode` and
`from_json` accept any content: a field of the wrong type or out of bounds counts as absent. nats-server checks the
subject of a message, but not the reply subject that it names. A program that answered to any reply subject would lend
its own rights to the requester; `may_answer` prevents that.
"""

import enum
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Never, Self, TypeVar

from shipper.subjects import MOVER, control_down, control_up

Fields = Mapping[str, Any]
"""The fields of a JSON object."""

MAX_QUESTION_BYTES = 64 * 1024
"""Maximum size of a request on `ctl.up`, in bytes. The largest of ours names 2000 sources of 16 digits."""
MAX_MESSAGE_BYTES = 1024 * 1024
"""Maximum size of any other message, in bytes."""
MAX_RECORDS_BYTES = 512 * 1024
"""Maximum size of the receipts or marks in one reply, in bytes: half of what a server accepts by default."""
MAX_SOURCES = 2000
"""Maximum number of sources in a request or a reply: the newest suffice for a host that lost its checkpoint."""
REPUBLISHED = ("Nats-Stream", "Nats-Subject")
"""Headers that nats-server adds to a stored message when it sends a copy: the answer to a direct get, a republish."""
ASKING_ROLES = ("collector", "partitioner", "reader", "monitor", "operator")
"""Roles of users, as in `_INBOX_<role>.`, whose programs may send requests to producers."""

_VERSION: Fields = {"v": 1}
_MAX_NUMBER = (1 << 63) - 1
_MAX_CRC = (1 << 32) - 1
_MAX_PARTITION = 999_999
_MAX_NAME = 200
_SOURCE = re.compile("[0-9a-f]{16}")
_ANY_CLIENT = "_INBOX."
"""The default inbox of every NATS client: where a server has rights for roles, no role listens there."""
_SERVICE_IMPORT = "_R_."
"""Prefix that nats-server gives the reply subject of a request that crosses accounts."""
_GATEWAY, _GATEWAY_TOKENS = "_GR_.", 3
"""Prefix that it gives the reply subject of a request that crosses clusters: `_GR_.<cluster>.<server>.`."""


# -- transport ------------------------------------------------------------------------------------------------------


def is_republished(headers: Mapping[str, str] | None) -> bool:
    """Whether nats-server sent a message as a copy of a stored one, which was published on another subject."""
    return headers is not None and any(name in headers for name in REPUBLISHED)


def may_answer(subject: str, reply: str) -> bool:
    """Whether an answer to a request on the control subject `subject` may be sent to `reply`."""
    while reply.startswith(_GATEWAY):
        reply = reply.split(".", _GATEWAY_TOKENS)[-1] if reply.count(".") >= _GATEWAY_TOKENS else ""
    if reply.startswith((_ANY_CLIENT, _SERVICE_IMPORT)):
        return True
    up, down = control_up(""), control_down("")
    if subject.startswith(up):
        asker = subject.removeprefix(up)
        return reply.startswith(f"_INBOX_{asker}.") or (asker == MOVER and reply.startswith("_INBOX_partitioner."))
    return subject.startswith(down) and any(reply.startswith(f"_INBOX_{role}.") for role in ASKING_ROLES)


def most_bytes(subject: str) -> int:
    """Maximum size of a message on `subject`, in bytes."""
    return MAX_QUESTION_BYTES if subject.startswith(control_up("")) else MAX_MESSAGE_BYTES


def decode(content: bytes) -> Fields | None:
    """A JSON object from the network; None: it is something else, or nested too deeply, or holds NaN or Infinity."""
    try:
        found = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def encode(fields: Fields) -> bytes:
    """A JSON object for the network."""
    return json.dumps(fields).encode()


def _no_number(text: str) -> Never:
    raise ValueError(f"{text} is not JSON")


# -- requests -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReceiptsRequest:
    """A producer requests receipts: of `sources`, or else of the newest sources of its host."""

    ASK: ClassVar = "receipts"
    partition: int  #: -1: the message names none that can exist
    sources: tuple[str, ...] | None = None  #: at most `MAX_SOURCES`, each once; None: the newest
    leaving: int = 0  #: the version of the map by which the host leaves the partition; 0: it does not leave

    def to_json(self) -> Fields:
        """The fields of the message."""
        leaving = {"leaving": self.leaving} if self.leaving else {}
        sources = {"sources": list(self.sources)} if self.sources is not None else {}
        return {**_VERSION, "ask": self.ASK, "partition": self.partition, **leaving, **sources}


@dataclass(frozen=True, slots=True)
class _PartitionRequest:
    """A request about one partition."""

    ASK: ClassVar[str]
    partition: int  #: -1: the message names none that can exist

    def to_json(self) -> Fields:
        """The fields of the message."""
        return {**_VERSION, "ask": self.ASK, "partition": self.partition}


@dataclass(frozen=True, slots=True)
class StreamRequest(_PartitionRequest):
    """A producer requests the stream of a partition that has none."""

    ASK: ClassVar = "stream"


@dataclass(frozen=True, slots=True)
class FinishRequest(_PartitionRequest):
    """The partitioner requests that a collector seals every open file of a closed stream."""

    ASK: ClassVar = "finish"


@dataclass(frozen=True, slots=True)
class ResendRequest:
    """A collector requests the bytes of a source from offset `start` on, which it misses."""

    ASK: ClassVar = "resend"
    source: str
    start: int  #: -1: the message names no offset
    archive: str = ""  #: identity of the collector's archive; empty: it has none

    def to_json(self) -> Fields:
        """The fields of the message."""
        archive = {"archive": self.archive} if self.archive else {}
        return {**_VERSION, "ask": self.ASK, "source": self.source, "from": self.start, **archive}


@dataclass(frozen=True, slots=True)
class MarksRequest:
    """An audit of `archive` requests how far a host shipped each of its sources; empty: of all archives."""

    ASK: ClassVar = "marks"
    archive: str = ""

    def to_json(self) -> Fields:
        """The fields of the message."""
        return {**_VERSION, "ask": self.ASK, "archive": self.archive}


@dataclass(frozen=True, slots=True)
class PlaceRequest:
    """The partitioner requests the partition that a host sends to."""

    ASK: ClassVar = "place"

    def to_json(self) -> Fields:
        """The fields of the message."""
        return {**_VERSION, "ask": self.ASK}


Request = ReceiptsRequest | StreamRequest | FinishRequest | ResendRequest | MarksRequest | PlaceRequest


def request_from_json(fields: Fields) -> Request | None:  # noqa: PLR0911 - one for each kind
    """The request in a message from the network; None: it is none that this version knows."""
    match fields.get("ask"):
        case ReceiptsRequest.ASK:
            return ReceiptsRequest(_partition(fields), _sources(fields.get("sources")), _number(fields, "leaving"))
        case StreamRequest.ASK:
            return StreamRequest(_partition(fields))
        case FinishRequest.ASK:
            return FinishRequest(_partition(fields))
        case ResendRequest.ASK:
            start = _number(fields, "from", default=-1)
            return ResendRequest(_text(fields, "source"), start, _text(fields, "archive"))
        case MarksRequest.ASK:
            return MarksRequest(_text(fields, "archive"))
        case PlaceRequest.ASK:
            return PlaceRequest()
    return None


# -- replies --------------------------------------------------------------------------------------------------------


class Receipt(NamedTuple):
    """How much of a source the archive holds."""

    source: str
    file: str
    origin: int
    watermark: int  #: offset up to which it is archived
    crc: int  #: CRC-32 of the archived bytes; -1: they are not the host's file byte for byte, so it proves nothing
    told: int = -1  #: then the sum that the host itself gave at the watermark; -1: unknown

    @property
    def host_crc(self) -> int:
        """CRC-32 of the file on the host from origin to watermark, whatever the archive has of it; -1: unknown."""
        return self.crc if self.crc >= 0 else self.told

    def to_json(self) -> Fields:
        """The fields of the record; `told` only where it is known and `crc` is not."""
        fields = self._asdict()
        if self.told < 0:
            del fields["told"]
        return fields

    @classmethod
    def from_json(cls, fields: Any) -> Self | None:
        """The record that has these fields; None: it is not well formed."""
        if not isinstance(fields, dict):
            return None
        source, file = fields.get("source"), fields.get("file")
        origin, watermark = _number(fields, "origin", default=-1), _number(fields, "watermark", default=-1)
        crc, told = _number(fields, "crc", default=-1), _number(fields, "told", default=-1)
        if not (isinstance(source, str) and isinstance(file, str) and "crc" in fields and 0 <= origin <= watermark):
            return None
        return cls(source, file, origin, watermark, crc, told)


@dataclass(frozen=True, slots=True)
class ReceiptsReply:
    """What an archive holds of a host."""

    archive: str  #: identity of the archive
    through: int  #: every message of the stream up to this sequence is judged, and no hole is open before it
    receipts: tuple[Receipt, ...]
    left: int = -1  #: the version of the map by which the host has left the partition, all archived; -1: not requested
    is_retired: bool = False  #: the partition has no stream any more; all that it had is archived

    def to_json(self) -> Fields:
        """The fields of the message."""
        left = {"left": self.left} if self.left >= 0 else {}
        retired = {"retired": True} if self.is_retired else {}
        receipts = [each.to_json() for each in self.receipts]
        return {**_VERSION, "archive": self.archive, "through": self.through, "receipts": receipts, **left, **retired}

    @classmethod
    def from_json(cls, fields: Fields | None) -> Self | None:
        """The message that has these fields; None: it holds no receipts."""
        found = fields.get("receipts") if fields is not None else None
        if fields is None or not isinstance(found, list):
            return None
        receipts = tuple(filter(None, map(Receipt.from_json, found)))
        left, is_retired = _number(fields, "left", default=-1), fields.get("retired") is True
        return cls(_text(fields, "archive"), _number(fields, "through"), receipts, left, is_retired)


class ResendAnswer(enum.Enum):
    """Whether missing bytes are sent again."""

    GONE = "gone"  #: the host does not have them any more
    EXCLUDED = "excluded"  #: the configuration of the host no longer names the file
    ARCHIVED = "archived"  #: another archive has them up to `ResendReply.watermark`
    RESENT = "resent"  #: this process sends them again
    LASTING = "lasting"  #: they are on disk, so that another process of the host could send them again, too


@dataclass(frozen=True, slots=True)
class ResendReply:
    """Whether missing bytes are sent again."""

    answer: ResendAnswer
    watermark: int = 0  #: of `ARCHIVED`: offset up to which another archive has the source

    def to_json(self) -> Fields:
        """The fields of the message."""
        match self.answer:
            case ResendAnswer.EXCLUDED:
                return {**_VERSION, "answer": "gone", "why": "excluded"}
            case ResendAnswer.LASTING:
                return {**_VERSION, "answer": "resent", "lasting": True}
            case ResendAnswer.ARCHIVED:
                return {**_VERSION, "answer": "archived", "watermark": self.watermark}
        return {**_VERSION, "answer": self.answer.value}

    @classmethod
    def from_json(cls, fields: Fields | None) -> Self | None:
        """The message that has these fields; None: there is no message. An answer of an unknown kind is `RESENT`."""
        if fields is None:
            return None
        match fields.get("answer"):
            case "gone":
                return cls(ResendAnswer.EXCLUDED if fields.get("why") == "excluded" else ResendAnswer.GONE)
            case "archived":
                return cls(ResendAnswer.ARCHIVED, _number(fields, "watermark"))
        return cls(ResendAnswer.LASTING if fields.get("lasting") is True else ResendAnswer.RESENT)


class SourceMark(NamedTuple):
    """How far a producer is with one source; offsets and sizes in bytes."""

    source: str
    file: str
    origin: int  #: shipping began there
    offset: int  #: acknowledged by the server up to there
    size: int  #: of the file at its last scan
    archived: int  #: up to there the archive of the request has it, as its collector reported
    elsewhere: int  #: up to there another archive has it
    ended: bool = False  #: nothing more is read of it
    excluded: bool = False  #: the configuration of the host no longer names the file
    crc: int = -1  #: CRC-32 of the host's file from `origin` to `offset`; -1: not reported, as by older producers

    def to_json(self) -> Fields:
        """The fields of the record."""
        fields = self._asdict()
        if not self.excluded:
            del fields["excluded"]
        if self.crc < 0:
            del fields["crc"]
        return fields

    @classmethod
    def from_json(cls, fields: Any) -> Self | None:
        """The record that has these fields; None: it is not well formed."""
        if not isinstance(fields, dict):
            return None
        source, file = fields.get("source"), fields.get("file")
        if not (isinstance(source, str) and isinstance(file, str)):
            return None
        numbers = {name: _number(fields, name) for name in ("origin", "offset", "size", "archived", "elsewhere")}
        ended, excluded = fields.get("ended") is True, fields.get("excluded") is True
        crc = _number(fields, "crc", default=-1)
        return cls(source, file, **numbers, ended=ended, excluded=excluded, crc=crc if crc <= _MAX_CRC else -1)


@dataclass(frozen=True, slots=True)
class MarksReply:
    """How far a host shipped its sources, the newest first, as many as fit."""

    marks: tuple[SourceMark, ...]

    def to_json(self) -> Fields:
        """The fields of the message."""
        return {**_VERSION, "marks": [each.to_json() for each in self.marks]}

    @classmethod
    def from_json(cls, fields: Fields | None) -> Self | None:
        """The message that has these fields; None: it holds no marks."""
        found = (fields or {}).get("marks")
        return cls(tuple(filter(None, map(SourceMark.from_json, found)))) if isinstance(found, list) else None


@dataclass(frozen=True, slots=True)
class PlaceReply:
    """The partition that a host sends to, by `version` of the partition map."""

    partition: int
    version: int
    leaving: bool = False  #: it publishes nothing more there, and waits for the last receipts

    def to_json(self) -> Fields:
        """The fields of the message."""
        leaving = {"leaving": True} if self.leaving else {}
        return {**_VERSION, "partition": self.partition, "version": self.version, **leaving}

    @classmethod
    def from_json(cls, fields: Fields | None) -> Self | None:
        """The message that has these fields; None: it is not well formed."""
        fields = fields or {}
        partition, version = _partition(fields), _number(fields, "version", default=-1)
        return cls(partition, version, fields.get("leaving") is True) if min(partition, version) >= 0 else None


class StreamAnswer(enum.Enum):
    """Whether a partition has a stream."""

    CREATED = "created"
    THERE = "there"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class StreamReply:
    """Whether a partition has a stream now."""

    answer: StreamAnswer
    reason: str = ""  #: of `REFUSED`

    def to_json(self) -> Fields:
        """The fields of the message."""
        reason = {"reason": self.reason} if self.answer is StreamAnswer.REFUSED else {}
        return {**_VERSION, "stream": self.answer.value, **reason}

    @classmethod
    def from_json(cls, fields: Fields | None) -> Self | None:
        """The message that has these fields; None: it is no answer to a request for a stream."""
        fields = fields or {}
        answer = next((each for each in StreamAnswer if each.value == fields.get("stream")), None)
        reason = fields.get("reason")
        return cls(answer, reason if isinstance(reason, str) else "") if answer is not None else None


@dataclass(frozen=True, slots=True)
class FinishReply:
    """What a collector has left to do for a closed stream."""

    through: int  #: every message up to this sequence is archived
    open: int  #: files that are not sealed

    def to_json(self) -> Fields:
        """The fields of the message."""
        return {**_VERSION, "through": self.through, "open": self.open}

    @classmethod
    def from_json(cls, fields: Fields | None) -> Self | None:
        """The message that has these fields; None: it is not well formed."""
        fields = fields or {}
        through, left = _number(fields, "through", default=-1), _number(fields, "open", default=-1)
        return cls(through, left) if min(through, left) >= 0 else None


_R = TypeVar("_R", Receipt, SourceMark)


def as_many_as_fit(records: Iterable[_R]) -> Iterator[_R]:
    """The first of `records` that together have at most `MAX_RECORDS_BYTES` as JSON."""
    size = 0
    for record in records:
        size += len(json.dumps(record.to_json())) + len(", ")
        if size > MAX_RECORDS_BYTES:
            return
        yield record


# -- fields of unknown content ---------------------------------------------------------------------------------------


def _number(fields: Fields, name: str, *, default: int = 0) -> int:
    """A whole number from 0 to 2^63 - 1; `default`: the field holds none."""
    value = fields.get(name)
    return value if type(value) is int and 0 <= value <= _MAX_NUMBER else default


def _partition(fields: Fields) -> int:
    number = _number(fields, "partition", default=-1)
    return number if number <= _MAX_PARTITION else -1


def _text(fields: Fields, name: str) -> str:
    """A name of at most `_MAX_NAME` characters; empty: the field holds none."""
    value = fields.get(name)
    return value if isinstance(value, str) and len(value) <= _MAX_NAME else ""


def _sources(found: Any) -> tuple[str, ...] | None:
    """The ids among what a request names: other texts are the id of no source, and may hold lone surrogates."""
    if not isinstance(found, list):
        return None
    texts = dict.fromkeys(source for source in found[:MAX_SOURCES] if isinstance(source, str))
    return tuple(source for source in texts if _SOURCE.fullmatch(source))
