"""The control protocol: the messages on `ctl.up.<host>`, `ctl.down.<host>` and `ctl.ask.<host>`, and who is answered.

    request on     from               `ask`      reply
    ctl.up         producer           receipts   ReceiptsReply: what the archive holds of the host
    ctl.up         producer           stream     StreamReply: whether the partition got its stream
    ctl.up         `partition` verbs  finish     FinishReply: what is left to seal of a closed stream
    ctl.down       collector          resend     ResendReply: whether missing bytes are sent again
    ctl.down `ask` `audit --hosts`    marks      MarksReply: how far the host shipped each source
    ctl.down       `partition` verbs  place      PlaceReply: the partition that the host sends to
    `ctl.ask`      `tail -f`          follow     none: the host sends lines early for a while
    ctl.down `ask` `explain`, `wait`  files      FilesReply: how far a file is, or all that are not archived

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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, get_args

from shipper.json_codec import IF_SET, Absent, Fields, Name, Reader, count, items, object_in, text, tolerant, written
from shipper.subjects import MOVER, control_down, control_up

MAX_QUESTION_BYTES = 64 * 1024
"""Maximum size of a request on `ctl.up`, in bytes. The largest of ours names 2000 sources of 16 digits."""
MAX_MESSAGE_BYTES = 1024 * 1024
"""Maximum size of any other message, in bytes."""
MAX_RECORDS_BYTES = 512 * 1024
"""Maximum size of the receipts or marks in one reply, in bytes: half of what a server accepts by default."""
MAX_SECONDS = 1 << 33
"""Maximum time in a reply, in seconds since 1970: the year 2242. Later ones are no time."""
MAX_SOURCES = 2000
"""Maximum number of sources in a request or a reply: the newest suffice for a host that lost its checkpoint."""
REPUBLISHED = ("Nats-Stream", "Nats-Subject")
"""Headers that nats-server adds to a stored message when it sends a copy: the answer to a direct get, a republish."""
ASKING_ROLES = ("collector", "partitioner", "reader", "monitor", "operator")
"""Roles of users, as in `_INBOX_<role>.`, whose programs may send requests to producers."""

_VERSION = {"v": 1}
_MAX_CRC = (1 << 32) - 1
_PARTITION = count(most=999_999)
_NAME = text(200)
_PATH = text(4096)
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
        return object_in(content)
    except ValueError:
        return None


def encode(fields: Fields) -> bytes:
    """A JSON object for the network."""
    return json.dumps(fields).encode()


class _Message:
    """What has fields in JSON."""

    __slots__ = ()

    def to_json(self) -> Fields:
        """The fields of the message."""
        return _VERSION | written(self)

    @classmethod
    def from_json(cls, fields: Fields | None) -> Self | None:
        """The message that has these fields; None: it is not well formed."""
        return tolerant(cls, fields)


def _records(read: Callable[[Any], Any]) -> Reader:
    """A list of records, of which those that are not well formed are left out."""

    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError("no list")
        return tuple(filter(None, map(read, value)))

    return read_all


def _sources(found: Any) -> tuple[str, ...]:
    """The ids among what a request names: other texts are the id of no source, and may hold lone surrogates."""
    if not isinstance(found, list):
        raise ValueError("no list")
    texts = dict.fromkeys(source for source in found[:MAX_SOURCES] if isinstance(source, str))
    return tuple(source for source in texts if _SOURCE.fullmatch(source))


# -- requests -------------------------------------------------------------------------------------------------------

_Offset = Annotated[int, count(), Absent(0)]
_Partition = Annotated[int, _PARTITION, Absent(-1)]
"""A partition; -1: the message names none that can exist."""


class _Question(_Message):
    """A message that is answered. A field that is absent or wrong has a value that no request of ours has."""

    __slots__ = ()
    ASK: ClassVar[str]

    def to_json(self) -> Fields:
        """The fields of the message."""
        return _VERSION | {"ask": self.ASK} | written(self)


@dataclass(frozen=True, slots=True)
class ReceiptsRequest(_Question):
    """A producer requests receipts: of `sources`, or else of the newest sources of its host."""

    ASK: ClassVar = "receipts"
    partition: _Partition
    leaving: Annotated[int, count(), IF_SET] = 0  #: the map version by which the host leaves the partition, or 0
    sources: Annotated[tuple[str, ...] | None, _sources, IF_SET] = None  #: at most `MAX_SOURCES`; None: the newest


@dataclass(frozen=True, slots=True)
class StreamRequest(_Question):
    """A producer requests the stream of a partition that has none."""

    ASK: ClassVar = "stream"
    partition: _Partition


@dataclass(frozen=True, slots=True)
class FinishRequest(_Question):
    """The partitioner requests that a collector seals every open file of a closed stream."""

    ASK: ClassVar = "finish"
    partition: _Partition


@dataclass(frozen=True, slots=True)
class ResendRequest(_Question):
    """A collector requests the bytes of a source from offset `start` on, which it misses."""

    ASK: ClassVar = "resend"
    source: Annotated[str, _NAME, Absent("")]
    start: Annotated[int, count(), Name("from"), Absent(-1)]  #: -1: the message names no offset
    archive: Annotated[str, _NAME, IF_SET] = ""  #: identity of the collector's archive; empty: it has none


@dataclass(frozen=True, slots=True)
class MarksRequest(_Question):
    """An audit of `archive` requests how far a host shipped each of its sources; empty: of all archives."""

    ASK: ClassVar = "marks"
    archive: Annotated[str, _NAME] = ""


@dataclass(frozen=True, slots=True)
class PlaceRequest(_Question):
    """The partitioner requests the partition that a host sends to."""

    ASK: ClassVar = "place"


USUAL_DELAY_SECONDS = 1.0
"""How long a host collects lines while no collector requests another pace, and its settings allow it."""
MAX_PACE_SECONDS = 10.0
"""Maximum pace that a collector may request; each host has its own maximum below."""
FOLLOW_SECONDS = 10.0
"""Time for which a `FollowRequest` counts. A follower repeats it in half of that time."""


@dataclass(frozen=True, slots=True)
class FollowRequest(_Question):
    """A reader shows the lines of the host as they come, so that they are sent early. There is no reply."""

    ASK: ClassVar = "follow"


@dataclass(frozen=True, slots=True)
class FilesRequest(_Question):
    """An operator requests how far one file of a host is, or all that are not archived."""

    ASK: ClassVar = "files"
    file: Annotated[str, _PATH, IF_SET] = ""  #: its name in the archive; empty: all files that are not archived
    scan: Annotated[bool, IF_SET] = True  #: the host scans its files soon, so that a later reply is about now


Request = (
    ReceiptsRequest
    | StreamRequest
    | FinishRequest
    | ResendRequest
    | MarksRequest
    | PlaceRequest
    | FollowRequest
    | FilesRequest
)


def request_from_json(fields: Fields) -> Request | None:
    """The request in a message from the network; None: it is none that this version knows."""
    kind = next((kind for kind in get_args(Request) if fields.get("ask") == kind.ASK), None)
    return kind and kind.from_json(fields)


# -- replies --------------------------------------------------------------------------------------------------------


class Receipt(NamedTuple):
    """How much of a source the archive holds."""

    source: str
    file: str
    origin: Annotated[int, count()]
    watermark: Annotated[int, count()]  #: offset up to which it is archived
    crc: Annotated[
        int, count(), Absent(-1)
    ]  #: CRC-32 of the archived bytes; -1: they differ from the file, and prove nothing
    reported_crc: Annotated[int, count(), Name("told"), IF_SET] = -1  #: if `crc` is -1: the host's own sum, or -1

    @property
    def host_crc(self) -> int:
        """CRC-32 of the file on the host from origin to watermark, whatever the archive has of it; -1: unknown."""
        return self.crc if self.crc >= 0 else self.reported_crc


def _receipt(fields: Any) -> Receipt | None:
    found = tolerant(Receipt, fields)
    return found if found and found.origin <= found.watermark else None


@dataclass(frozen=True, slots=True)
class ReceiptsReply(_Message):
    """What an archive holds of a host."""

    archive: Annotated[str, _NAME, Absent("")]  #: identity of the archive
    through: Annotated[int, count(), Absent(0)]  #: all messages up to this sequence are judged, without a hole
    receipts: Annotated[tuple[Receipt, ...], _records(_receipt)]
    left: Annotated[int, count(), IF_SET] = -1  #: the map version by which the host left, all archived; or -1
    is_retired: Annotated[bool, Name("retired"), IF_SET] = False  #: its stream is gone; all that it had is archived
    pace: Annotated[int, count(most=int(1000 * MAX_PACE_SECONDS)), IF_SET] = 0  #: milliseconds; 0: as the host likes

    @property
    def pace_seconds(self) -> float:
        """How long the host is to collect lines, within its own maximum; 0: as it likes."""
        return self.pace / 1000


class ResendAnswer(enum.Enum):
    """Whether missing bytes are sent again."""

    GONE = "gone"  #: the host does not have them any more
    EXCLUDED = "excluded"  #: the configuration of the host no longer names the file
    ARCHIVED = "archived"  #: another archive has them up to `ResendReply.watermark`
    RESENT = "resent"  #: this process sends them again
    LASTING = "lasting"  #: they are on disk, so that another process of the host could send them again, too


@dataclass(frozen=True, slots=True)
class ResendReply(_Message):
    """Whether missing bytes are sent again."""

    answer: Annotated[ResendAnswer, ResendAnswer]
    watermark: Annotated[int, count(), IF_SET] = 0  #: of `ARCHIVED`: offset up to which another archive has the source

    def to_json(self) -> Fields:
        """The fields of the message."""
        match self.answer:
            case ResendAnswer.EXCLUDED:
                return _VERSION | {"answer": "gone", "why": "excluded"}
            case ResendAnswer.LASTING:
                return _VERSION | {"answer": "resent", "lasting": True}
        return _VERSION | written(self)

    @classmethod
    def from_json(cls, fields: Fields | None) -> Self | None:
        """The message that has these fields, or None without any. An answer of an unknown kind is `RESENT`."""
        if fields is None:
            return None
        match fields.get("answer"):
            case "gone":
                return cls(ResendAnswer.EXCLUDED if fields.get("why") == "excluded" else ResendAnswer.GONE)
            case "archived":
                return tolerant(cls, fields)
        return cls(ResendAnswer.LASTING if fields.get("lasting") is True else ResendAnswer.RESENT)


class SourceMark(NamedTuple):
    """How far a producer is with one source; offsets and sizes in bytes."""

    source: str
    file: str
    origin: _Offset  #: shipping began there
    offset: _Offset  #: acknowledged by the server up to there
    size: _Offset  #: of the file at its last scan
    archived: _Offset  #: up to there the archive of the request has it, as its collector reported
    elsewhere: _Offset  #: up to there another archive has it
    ended: bool = False  #: nothing more is read of it
    excluded: Annotated[bool, IF_SET] = False  #: the configuration of the host no longer names the file
    crc: Annotated[int, count(most=_MAX_CRC), IF_SET] = -1  #: of the host's file from `origin` to `offset`; -1: unknown


@dataclass(frozen=True, slots=True)
class MarksReply(_Message):
    """How far a host shipped its sources, the newest first, as many as fit."""

    marks: Annotated[tuple[SourceMark, ...], _records(partial(tolerant, SourceMark))]


class FileVerdict(enum.Enum):
    """Whether a host reads the file that a request names, and if not, why."""

    FOLLOWED = "followed"
    SECOND_NAME = "second name"  #: it is read, or was, under another name
    NEW = "new"  #: it came after the last scan
    UNMATCHED = "unmatched"  #: no pattern of the configuration names it
    MISSING = "missing"  #: a pattern names it, and no file is there
    EXCLUDED = "excluded"
    UNREADABLE = "unreadable"
    LINK = "link"  #: a symbolic link that is not followed
    SKIPPED = "skipped"  #: no regular file, a copy, or compressed
    UNKNOWN = "unknown"


class FileMark(NamedTuple):
    """How far one file is on its way, as its producer knows it; offsets and sizes in bytes."""

    source: str
    file: str
    origin: _Offset  #: shipping began there
    read: _Offset  #: read up to there
    offset: _Offset  #: acknowledged by the server up to there
    archived: _Offset  #: up to there an archive has it, as its collector reported
    size: _Offset  #: at the last scan
    sequence: _Offset  #: in its stream, of the newest acknowledged block; 0: none, or it is archived
    changed: Annotated[int, count(most=MAX_SECONDS), Absent(0)]  #: seconds since 1970 of its last change, by its host
    state: Annotated[str, text(40), Absent("")]  #: of the tailer: `idle`, `holding_line`, ...
    ended: bool = False  #: nothing more is read of it

    @property
    def unsent(self) -> int:
        """Bytes that no server has acknowledged."""
        return 0 if self.ended else max(0, self.size - self.offset)

    @property
    def unarchived(self) -> int:
        """Bytes that a server has acknowledged, and of which no receipt came."""
        return max(0, self.offset - max(self.origin, self.archived))


@dataclass(frozen=True, slots=True)
class FilesReply(_Message):
    """How far a host is with one file, or with all files that are not archived."""

    run: Annotated[str, _NAME]  #: differs for each process
    clock: Annotated[int, count(most=1000 * MAX_SECONDS)]  #: milliseconds since 1970, by the host
    scanned: Annotated[int, count()]  #: milliseconds since the last scan of all files began
    partition: Annotated[int, _PARTITION]
    pending: Annotated[int, count()]  #: files that are not archived; `marks` may have fewer
    marks: Annotated[tuple[FileMark, ...], _records(partial(tolerant, FileMark))]
    unreadable: Annotated[int, count(), IF_SET] = 0  #: files that cannot be read and directories that cannot be listed
    named: Annotated[tuple[str, ...], items(_PATH, 10), IF_SET] = ()  #: some of them
    unsettled: Annotated[bool, IF_SET] = False  #: something that the last scan found is not known yet
    leaving: Annotated[bool, IF_SET] = False  #: the host moves to another partition and waits for the last receipts
    verdict: Annotated[FileVerdict, FileVerdict, IF_SET] = FileVerdict.UNKNOWN  #: of the file that was requested
    reason: Annotated[str, _PATH, IF_SET] = ""

    @property
    def is_whole(self) -> bool:
        """Whether `marks` has every file that is not archived."""
        return self.pending <= len(self.marks)


@dataclass(frozen=True, slots=True)
class PlaceReply(_Message):
    """The partition that a host sends to, by `version` of the partition map."""

    partition: Annotated[int, _PARTITION]
    version: Annotated[int, count()]
    leaving: Annotated[bool, IF_SET] = False  #: it publishes nothing more there, and waits for the last receipts


class StreamAnswer(enum.Enum):
    """Whether a partition has a stream."""

    CREATED = "created"
    THERE = "there"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class StreamReply(_Message):
    """Whether a partition has a stream now."""

    answer: Annotated[StreamAnswer, StreamAnswer, Name("stream")]
    reason: Annotated[str, IF_SET] = ""  #: of `REFUSED`


@dataclass(frozen=True, slots=True)
class FinishReply(_Message):
    """What a collector has left to do for a closed stream."""

    through: Annotated[int, count()]  #: every message up to this sequence is archived
    open: Annotated[int, count()]  #: files that are not sealed


_R = TypeVar("_R", Receipt, SourceMark, FileMark)


def as_many_as_fit(records: Iterable[_R]) -> Iterator[_R]:
    """The first of `records` that together have at most `MAX_RECORDS_BYTES` as JSON."""
    size = 0
    for record in records:
        size += len(json.dumps(written(record))) + len(", ")
        if size > MAX_RECORDS_BYTES:
            return
        yield record
