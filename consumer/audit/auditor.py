"""The audit, day by day: which files should exist, which exist, and which bytes each source lacks.

It changes nothing and takes no lock that a collector waits for, so the archive may be in use. Because a file may be
sealed or merged during a check, every finding is checked again before it is reported.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from consumer.archive import manifests
from consumer.archive.directory import LOCKS, is_written
from consumer.archive.finding import Finding, Kind, Weight
from consumer.archive.journal_snapshot import JournalSnapshots
from consumer.archive.manifests import removed_days, removed_hosts
from consumer.archive.parts import Part
from consumer.audit.coverage import SourceBounds, SourceCoverage
from consumer.audit.day_inventory import STATE_HINT, DayInventory, Scope, take_inventory
from consumer.audit.source_copies import SourceCopies
from consumer.audit.source_sums import Marks, SourceSums
from consumer.audit.text_parts import Cuts
from consumer.audit.totals import Row, Rows
from consumer.audit.verify_file import Checked, check, check_all, findings_of, head_of
from shipper import layout
from shipper.units import counted

MAX_ROUNDS = 3
"""Maximum attempts to check a day during which the archive does not change."""
SETTLING_TRIES = 10


@dataclass(slots=True, kw_only=True)
class AuditResult:
    """What an audit found."""

    scope: Scope
    rows: list[Row] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: int = 0  #: that were read
    octets: int = 0  #: bytes on disk that were read
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether everything that was shipped is in the archive, exactly once and unchanged."""
        return all(finding.weight is Weight.NOTE for finding in self.findings)


def _no_progress(_: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Receives the progress of the audit."""

    expect: Callable[[int], None] = _no_progress  #: so many more bytes will be read
    advance: Callable[[int], None] = _no_progress  #: so many were


class Audit:
    """One audit, from its first check to its result."""

    def __init__(
        self, scope: Scope, journals: JournalSnapshots, progress: Progress, marks: Marks | None = None
    ) -> None:
        """`marks`: what the producers report, by host, as it was before the journals."""
        self._scope = scope
        self._journals = journals  # as at the beginning: everything in them must be found
        self._progress = progress
        self._rows = Rows()
        self._sources = SourceCoverage(scope)
        self._sums = SourceSums(journals, marks or {})
        self._copies = SourceCopies(
            lambda entry, cuts: check(scope.archive, entry, cuts).parts,
            lambda entry, source, limit: head_of(scope.archive, entry, source, limit),
        )
        self._result = AuditResult(scope=scope, findings=[*journals.findings, *_without_journal(scope, journals)])
        self._in_flight: dict[str, int] = {}  # bytes after the committed length, by path
        self._is_settled = True

    def run(self) -> AuditResult:
        """Check everything. Raises OSError: a directory cannot be read. Fatal: a journal cannot be copied."""
        began, archive = time.monotonic(), self._scope.archive
        days = self._days()
        for date in sorted(filter(self._scope.has_day, days - removed_days(archive))):
            self._day(date)
        removed = removed_days(archive)  # again: some may be removed during the audit
        self._result.findings = [each for each in self._result.findings if each.date not in removed]
        for date in sorted(filter(self._scope.has_day, removed)):
            self._note(Kind.REMOVED_DAY, "the day was removed by retention", date=date)
        hosts = removed_hosts(archive)
        for date in sorted(filter(self._scope.has_day, hosts.keys() - removed)):
            for host in sorted(hosts[date]):
                self._note(Kind.REMOVED_HOST, "retention removed the day of this host", date=date, host=host)
        for (date, host), number in sorted(self._journals.dropped_letters().items()):
            if self._scope.has_day(date) and self._scope.has_host(host):
                text = f"{counted(number, 'message')} that could not be applied: counted only, its host had too many"
                self._note(Kind.DROPPED_LETTERS, text, date=date, host=host)
        bounds = self._bounds(days, removed)._replace(cut=frozenset(chain.from_iterable(hosts.values())))
        if self._is_settled:
            self._result.findings += self._sources.findings(self._journals, self._rows, bounds)
        self._result.findings += [*self._sums.findings(self._rows), *self._copies.findings()]
        if octets := sum(self._in_flight.values()):
            text = f"{octets:,} bytes in open files are not committed yet: a collector is writing them"
            self._note(Kind.UNCOMMITTED_BYTES, text, octets=octets)
        self._result.rows = [row for _, row in sorted(self._rows.items())]
        if not (days or removed or self._result.rows or not self._result.complete):
            # It is not damage, but a check of the wrong directory must not succeed.
            where = f"nothing is archived yet in {archive.absolute()}"
            text = f"{where}: no day and no file was found, so nothing was verified"
            hint = "is it the collector's directory (SHIPPER_DIRECTORY)? if it is new: fshipper status shows what comes"
            nothing = Finding(kind=Kind.NOTHING_ARCHIVED, weight=Weight.GAP, text=text, hint=hint)
            self._result.findings.append(nothing)
        self._result.seconds = time.monotonic() - began
        return self._result

    # -- a day --------------------------------------------------------------------------------------------------

    def _days(self) -> set[str]:
        """Every day for which a file exists or should exist."""
        archive = self._scope.archive
        journaled = {entry.key.date for entry in self._journals.entries()}
        return manifests.days(archive) | manifests.directory_days(archive) | journaled

    def _bounds(self, days: set[str], removed: set[str]) -> SourceBounds:
        """How far sources can be followed: any part of them may be in days that are removed or not audited."""
        own = ("_", ".", "date=", layout.LIVE_DIRECTORY, "lost+found")
        names = [each.name for each in self._scope.archive.iterdir() if each.is_dir() and not each.name.startswith(own)]
        if others := min(names, default=""):  # a template of SHIPPER_OUTPUT created it
            text = f"{others} has another layout, without spans: beginnings and ends of sources are not checked"
            self._note(Kind.UNLISTED_FILE, text)
            return SourceBounds(begin=False, end=False)
        scope = self._scope
        return SourceBounds(
            begin=not removed and all(date >= scope.since for date in days),
            end=all(not scope.until or date <= scope.until for date in days),
        )

    def _day(self, date: str) -> None:
        if any(entry.key.date == date for entry in self._journals.entries()):
            looked = self._settled_inventory(date)
        else:  # the day is over: only its manifests define what should exist
            looked = take_inventory(self._scope, date, [], self._journals.epochs)
        checked = self._checked(looked.entries.values())
        for _ in range(MAX_ROUNDS):
            suspects = {each.entry.place for each in checked.values() if each.uncommitted or not each.sound}
            if not (suspects or looked.findings):
                break
            again = self._settled_inventory(date)
            same = again.findings == looked.findings
            looked = _merged(looked, again, suspects)
            kept = {path: each for path, each in checked.items() if looked.entries.get(path) == each.entry}
            kept = {path: each for path, each in kept.items() if each.entry.place not in suspects}
            renewed = self._checked(entry for path, entry in looked.entries.items() if path not in kept)
            same = same and len(kept) + len(renewed) == len(checked) and renewed.items() <= checked.items()
            checked = kept | renewed
            if same:
                break
        self._count(looked, checked)

    def _settled_inventory(self, date: str) -> DayInventory:
        """An inventory during which nothing was sealed. If that is not possible, open files are left out of it."""
        for _ in range(SETTLING_TRIES):
            before = manifests.signature(self._scope.archive, date)
            with JournalSnapshots(self._scope.journals) as journals:
                rows = [entry for entry in journals.entries() if entry.key.date == date]
                looked = take_inventory(self._scope, date, rows, journals.epochs)
            if manifests.signature(self._scope.archive, date) == before:
                return looked
        self._is_settled = False
        looked = take_inventory(self._scope, date, rows, journals.epochs)
        sealed = {path: entry for path, entry in looked.entries.items() if not entry.is_waiting}
        text = "its files were sealed faster than they could be checked; open files and holes are left out"
        note = Finding(kind=Kind.UNLISTED_FILE, weight=Weight.NOTE, date=date, text=text)
        return DayInventory(entries=sealed, findings=[note])

    def _checked(self, entries: Iterable[Part]) -> dict[str, Checked]:
        wanted = list(entries)
        self._progress.expect(sum(entry.stored for entry in wanted))
        found = check_all(self._scope.archive, wanted, self._progress.advance, self._cuts)
        checked = {each.entry.path: self._without_writing(each) for each in found}
        self._result.files += len(checked)
        self._result.octets += sum(each.octets for each in checked.values())
        return checked

    def _cuts(self, entry: Part) -> Mapping[str, Cuts]:
        known, begun = self._sums.cuts(entry), self._copies.cuts(entry)
        return {source: sorted({*known.get(source, ()), *cuts}) for source, cuts in begun.items()}

    def _without_writing(self, checked: Checked) -> Checked:
        """Whether a collector holds the partition: then uncommitted bytes are normal. Called once per check."""
        if not checked.uncommitted or not is_written(self._scope.archive, checked.entry.key.partition):
            return checked
        self._in_flight[checked.entry.path] = checked.uncommitted
        return replace(checked, uncommitted=0)

    def _count(self, looked: DayInventory, checked: dict[str, Checked]) -> None:
        self._result.findings += looked.findings
        for entry in sorted(looked.entries.values(), key=_order):
            each, row = checked[entry.path], self._rows[entry.place]
            found = list(findings_of(each))
            row.count(each)
            row.lose(sum(each.octets for each in found if each.kind is Kind.GAP))
            self._result.findings += [*found, *self._sources.add(entry)]
            if each.sound:
                self._sums.add(entry, each.parts)
                self._copies.add(entry, each.parts)

    def _note(self, kind: Kind, text: str, *, date: str = "", host: str = "", octets: int = 0) -> None:
        note = Finding(kind=kind, weight=Weight.NOTE, date=date, host=host, octets=octets, text=text)
        self._result.findings.append(note)


def _order(entry: Part) -> tuple[object, ...]:
    """The order of copies: sealed files in the order of `shipper.duplicates`, then open files."""
    return (entry.is_waiting, entry.order, entry.first_ns, entry.path)


def _without_journal(scope: Scope, journals: JournalSnapshots) -> Iterator[Finding]:
    """Partitions that were written and whose journal is not in the state directory."""
    begun = {int(path.stem.partition("=")[2]) for path in (scope.archive / LOCKS).glob("partition=[0-9]*.begun")}
    for partition in sorted(begun - journals.epochs.keys()):
        text = f"no journal of partition {partition} is in {scope.journals}: where its sources end is not known"
        yield Finding(kind=Kind.BAD_JOURNAL, weight=Weight.NOTE, text=text, hint=STATE_HINT)


def _merged(before: DayInventory, again: DayInventory, suspects: set[tuple[str, str, str]]) -> DayInventory:
    """The inventory with findings checked again: a finding is reported only if both checks have it."""
    entries = {path: entry for path, entry in before.entries.items() if entry.place not in suspects}
    entries |= {path: entry for path, entry in again.entries.items() if entry.place in suspects}
    seen = {(finding.kind, finding.path) for finding in before.findings}
    return DayInventory(entries=entries, findings=[each for each in again.findings if (each.kind, each.path) in seen])
