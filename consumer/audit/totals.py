"""The rows of the audit report: one for each host, file and day. Pure."""

from dataclasses import dataclass, field

from consumer.audit.verify_file import Checked


@dataclass(slots=True)
class Sum:
    """Bytes and lines of text."""

    bytes: int = 0
    lines: int = 0

    def add(self, octets: int, lines: int) -> None:
        """Count more."""
        self.bytes += octets
        self.lines += lines


@dataclass(slots=True)
class Row:
    """One log file of one host on one day."""

    host: str
    file: str
    date: str
    files: int = 0  #: segments and open files
    shipped: Sum = field(default_factory=Sum)  #: archived, damaged and missing
    archived: Sum = field(default_factory=Sum)  #: there, as manifest or journal list the file
    damaged: Sum = field(default_factory=Sum)  #: there, but not as they were committed
    missing: Sum = field(default_factory=Sum)  #: the number of lines is unknown for bytes that never arrived
    journal_bytes: int = 0  #: of `archived`: proven by the journal's sum of their source
    producer_bytes: int = 0  #: of `archived`: proven by the sum that the producer reports
    differing_bytes: int = 0  #: of `archived`: in a source whose sum differs

    @property
    def complete(self) -> bool:
        """Whether all that was shipped is archived."""
        return not (self.damaged.bytes or self.missing.bytes or self.differing_bytes)

    def count(self, checked: Checked) -> None:
        """Count a file that was checked."""
        entry, self.files = checked.entry, self.files + 1
        lines = checked.lines if entry.lines is None else entry.lines
        if checked.sound:
            self.archived.add(entry.raw, lines)
        else:
            there, there_lines = min(checked.raw, entry.raw), min(checked.lines, lines)
            self.damaged.add(there, there_lines)
            self.missing.add(entry.raw - there, lines - there_lines)
        self.shipped.add(entry.raw, lines)

    def lose(self, octets: int) -> None:
        """Count bytes that were shipped and are not there, or could not be shipped any more."""
        self.shipped.add(octets, 0)
        self.missing.add(octets, 0)


class Rows(dict[tuple[str, str, str], Row]):
    """The rows by host, file and day, as they grow."""

    def __missing__(self, place: tuple[str, str, str]) -> Row:
        return self.setdefault(place, Row(*place))
