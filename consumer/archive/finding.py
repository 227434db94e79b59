"""What an audit finds, as values."""

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    """What is wrong. The values are part of the JSON."""

    MISSING_FILE = "missing_file"  #: listed or journaled, and not there
    DAMAGED_FILE = "damaged_file"  #: other bytes than were committed
    UNREADABLE_FILE = "unreadable_file"
    UNLISTED_FILE = "unlisted_file"  #: no record names it, so its bytes are ignored
    UNCOMMITTED_BYTES = "uncommitted_bytes"  #: after the committed length of an open file
    BAD_MANIFEST = "bad_manifest"
    BAD_JOURNAL = "bad_journal"
    BAD_ACCOUNT = "bad_account"  #: a file and its recorded spans differ
    DOUBLED_BYTES = "doubled_bytes"  #: of a source, in two places
    SAME_TEXT = "same_text"  #: two sources with different names begin with the same bytes
    MISSING_BYTES = "missing_bytes"  #: of a source, in no file and in no gap record
    GAP = "gap"  #: recorded when it happened
    ELSEWHERE = "elsewhere"  #: another collector's archive has them
    EXCLUDED = "excluded"  #: not read, because the configuration of the host did not name the file
    FORKED = "forked"  #: two producers continued one source, and both are in the archive
    REMOVED_DAY = "removed_day"
    DROPPED_LETTERS = "dropped_letters"  #: messages of a host that had too many dead letters on that day
    REMOVED_HOST = "removed_host"  #: a day of one host, by its share of the archive
    REDACTED = "redacted"  #: blacked out on purpose, as recorded
    REMOVED_COPY = "removed_copy"  #: doubled bytes were removed, as recorded
    DIFFERENT_SUM = "different_sum"  #: a source's text has another CRC than the journal or its producer recorded
    PRODUCER = "producer"
    NOTHING_ARCHIVED = "nothing_archived"  #: no day, no file: nothing could be verified


class Weight(enum.Enum):
    """What a finding means for the whole."""

    DAMAGE = "damage"  #: the archive is not what was written
    GAP = "gap"  #: bytes are lost, and the archive recorded it
    NOTE = "note"  #: worth a line, nothing is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be, or worth a line."""

    kind: Kind
    text: str  #: what, in a sentence for a person
    weight: Weight = Weight.DAMAGE
    host: str = ""
    file: str = ""  #: on the host
    date: str = ""
    path: str = ""  #: in the archive
    octets: int = 0  #: number of bytes concerned; 0: unknown
    hint: str = ""  #: what to do
    other: str = ""  #: SAME_TEXT: the file on the host that has the bytes, too
