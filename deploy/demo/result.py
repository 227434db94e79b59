"""What a demo found out."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.demo.proof import Verdict
from deploy.demo.reports import Made


@dataclass(frozen=True, slots=True)
class Result:
    """The proof and all that belongs to it."""

    out: Path
    archive: Path
    seconds: float
    verdicts: Sequence[Verdict]
    generations: dict[str, int]  #: by path of the live file
    kills: dict[str, int]  #: by program
    kills_survived: dict[str, int]  #: by host: of its producer, the server and the collector
    strangers: Sequence[str] = ()  #: log files in the archive that nobody wrote
    missing_bytes: int = 0  #: not in the archive when it had stopped growing for long, before anything was stopped
    reports: Sequence[Made] = ()
    report_skipped: str = ""

    @property
    def holds(self) -> bool:
        """Whether the proof holds."""
        return all(one.identical for one in self.verdicts) and not self.strangers and not self.missing_bytes

    @property
    def octets(self) -> int:
        """Bytes that were written."""
        return sum(one.expected.octets for one in self.verdicts)

    @property
    def lines(self) -> int:
        """Newlines that were written."""
        return sum(one.expected.lines for one in self.verdicts)

    def as_json(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "v": 1,
            "identical": self.holds,
            "out": str(self.out),
            "archive": str(self.archive),
            "seconds": round(self.seconds, 1),
            "bytes": self.octets,
            "lines": self.lines,
            "kills": self.kills,
            "missing_bytes": self.missing_bytes,
            "strangers": list(self.strangers),
            "files": [self._file(verdict) for verdict in self.verdicts],
            "reports": [{"date": made.date, "page": str(made.page), "lines": made.lines} for made in self.reports],
            "report_skipped": self.report_skipped,
        }

    def _file(self, verdict: Verdict) -> dict[str, Any]:
        expected, difference = verdict.expected, verdict.difference
        return {
            "host": expected.host,
            "file": expected.file,
            "identical": verdict.identical,
            "bytes": expected.octets,
            "bytes_archived": verdict.octets,
            "lines": expected.lines,
            "lines_archived": verdict.lines,
            "sha256": expected.sha256,
            "sha256_archived": verdict.sha256,
            "generations": self.generations[expected.file],
            "kills_survived": self.kills_survived[expected.host],
            "segments": verdict.segments,
            "damage": verdict.damage,
            "difference": None
            if difference is None
            else {name: repr(value) if isinstance(value, bytes) else value for name, value in _fields(difference)},
        }


def _fields(value: Any) -> list[tuple[str, Any]]:
    return list(dataclasses.asdict(value).items())
