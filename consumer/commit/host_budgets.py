"""Budgets of one host in one partition: one host cannot use up the space that other hosts need.

The journal stores what a host spends in a UTC day, so a restart of the collector does not reset a budget. The day is
that of the JetStream timestamp, which no host controls.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from consumer.model import Account, Budget, OpenFile
from shipper.errors import Poison
from shipper.layout import FileKey

MAX_HOLES = 1000
"""Maximum open holes of a host: each one delays the purge of the stream, needs requests, and uses memory.

A block after a further hole becomes a dead letter. Its producer sends it again with the bytes of the hole.
"""
OVERFLOW = "overflow.log"
"""Log file for the lines of a host that has too many files."""
MAX_FILES = 10_000
"""Maximum open files of a host. The lines of further files go to `OVERFLOW`, in order and exactly once."""
MAX_NEW_FILES = 250_000
"""Maximum new files of a host per day; each becomes a segment. The lines of further files go to `OVERFLOW`."""
MAX_NEW_SOURCES = 1_000_000
"""Maximum new sources of a host per day; blocks of further ones become dead letters. 100 MB/s in files of 10 MB are
864,000 sources."""
MAX_LOST = 1 << 44
"""Maximum bytes that a host may report as lost per day: 16 TiB. More would hide the losses of other hosts."""
MAX_LETTERS = 10_000
"""Maximum dead letters of a host that are kept per day; further ones are only counted."""
FULL_BYTES = 16 * 1024 * 1024
"""Maximum bytes of whole dead letters of a host per day; of further ones only the beginning is kept."""


class HostBudgets:
    """What the hosts spend in one batch. The counts are computed at their first use, which is rare."""

    def __init__(
        self,
        files: Mapping[str, OpenFile],
        holes: Iterable[tuple[str, int]],
        spent: Callable[[Account], int],
        *,
        text_bytes: int,
    ) -> None:
        """`holes`: host and missing bytes of each open hole. `spent`: what an account spent before this batch.

        `text_bytes`: text that a host may archive in a day before an alert; 0: without limit.
        """
        self._text_bytes = text_bytes
        self._files = files
        self._holes = holes
        self._spent_before = functools.cache(spent)
        self._admitted: set[str] = set()
        self._new_files: Counter[tuple[str, str]] = Counter()
        self._files_of: Counter[str] | None = None
        self._holes_of: Counter[str] | None = None
        self._missing_of: Counter[str] = Counter()
        self.spent: Counter[Account] = Counter()  #: by this batch
        self.refused: Counter[tuple[str, Budget]] = Counter()  #: messages above a budget, by host and budget
        self.cut: Counter[str] = Counter()  #: dead letters of which only the beginning is kept, by host

    def admit_file(self, key: FileKey, path: str) -> bool:
        """Whether a host may begin the file `path`, which is not in the journal. If it may, the file is counted."""
        if path in self._admitted:
            return True
        if self._files_of is None:
            self._files_of = Counter(file.key.host for file in self._files.values())
        day = (key.date, key.host)
        begun = self._spent(Account(*day, Budget.FILES)) + self._new_files[day]
        if self._files_of[key.host] >= MAX_FILES or begun >= MAX_NEW_FILES:
            return False
        self._files_of[key.host] += 1
        self._new_files[day] += 1
        self._admitted.add(path)
        return True

    def begin_file(self, key: FileKey) -> None:
        """An admitted file is created."""
        self.spent[Account(key.date, key.host, Budget.FILES)] += 1
        self._new_files[key.date, key.host] -= 1

    def admit_source(self, date: str, host: str) -> None:
        """Check that a host may begin one more source. Raises Poison: it has begun too many today."""
        if self._spent(Account(date, host, Budget.SOURCES)) >= MAX_NEW_SOURCES:
            self.refused[host, Budget.SOURCES] += 1
            raise Poison(f"its host has begun {MAX_NEW_SOURCES} other sources (files and rotations) today")

    def begin_source(self, date: str, host: str) -> None:
        """An admitted source is begun."""
        self.spent[Account(date, host, Budget.SOURCES)] += 1

    def admit_hole(self, date: str, host: str, missing: int) -> None:
        """Count one more open hole of a host. Raises Poison: it has too many, or too many bytes are missing."""
        self.admit_loss(date, host, missing)
        if self._count_holes()[host] >= MAX_HOLES:
            raise Poison(f"bytes before it are missing, as in {MAX_HOLES} other files of its host")
        self._count_holes()[host] += 1
        self._missing_of[host] += missing

    def fill_hole(self, host: str, missing: int) -> None:
        """A hole of a host is filled."""
        if self._holes_of is not None:
            self._holes_of[host] -= 1
            self._missing_of[host] -= missing

    def admit_loss(self, date: str, host: str, octets: int) -> None:
        """Check that a host may lose `octets` more bytes. Raises Poison: that would exceed `MAX_LOST`."""
        self._count_holes()
        account = Account(date, host, Budget.LOST)
        if self._spent(account) + self._missing_of[host] + octets > MAX_LOST:
            self.refused[host, Budget.LOST] += 1
            raise Poison(f"with these {octets} lost bytes its host would have lost more than {MAX_LOST} today")

    def lose(self, date: str, host: str, octets: int) -> None:
        """Bytes of a host are recorded as lost."""
        self.spent[Account(date, host, Budget.LOST)] += octets

    def add_text(self, date: str, host: str, octets: int) -> None:
        """Text of a host is archived. Above its budget the message is counted and kept: a loss is worse than its size.

        A few stored bytes can hold much text, which each reader of the archive has to unpack.
        """
        account = Account(date, host, Budget.TEXT)
        self.spent[account] += octets
        if self._text_bytes and self._spent(account) > self._text_bytes:
            self.refused[host, Budget.TEXT] += 1

    def keep_letter(self, date: str, host: str, octets: int) -> tuple[bool, bool]:
        """Whether a dead letter of `octets` is kept, and whether it is kept whole."""
        letters, whole = Account(date, host, Budget.LETTERS), Account(date, host, Budget.LETTER_BYTES)
        if self._spent(letters) >= MAX_LETTERS:
            self.refused[host, Budget.LETTERS] += 1
            self.spent[Account(date, host, Budget.DROPPED)] += 1
            return False, False
        self.spent[letters] += 1
        if self._spent(whole) + octets > FULL_BYTES:
            self.cut[host] += 1
            return True, False
        self.spent[whole] += octets
        return True, True

    def _spent(self, account: Account) -> int:
        return self._spent_before(account) + self.spent[account]

    def _count_holes(self) -> Counter[str]:
        if self._holes_of is None:
            self._holes_of = Counter()
            for host, missing in self._holes:
                self._holes_of[host] += 1
                self._missing_of[host] += missing
        return self._holes_of
