"""What `fshipper audit` and `fshipper status` print on narrow terminals: nothing is cut, and paths stay readable."""

import io
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from consumer.audit import app as audit_show
from consumer.audit.auditor import AuditResult
from consumer.audit.day_inventory import Scope
from consumer.audit.totals import Row, Sum
from consumer.fleet import display as fleet_show
from consumer.fleet.causes import CollectorSign
from consumer.fleet.display import fleet_json
from consumer.fleet.host_table import HostState, HostStatus
from consumer.fleet.snapshot import Fleet, partitions_of
from shipper.heartbeat import Heartbeat
from shipper.jetstream.stream_status import PartitionStatus
from shipper.table_printer import standard_output

FILE = "/srv/applications/shop/current/log/production-of-the-year.log"
HOST = "web1.shop.example.net"
WIDTHS = pytest.mark.parametrize("width", [60, 80, 120])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch, width: int) -> Terminal:
    """The standard output from now on."""
    made = Terminal()
    monkeypatch.setattr("sys.stdout", made)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    return made


def printed(terminal: Terminal) -> list[str]:
    return re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue()).splitlines()


@WIDTHS
def test_an_audit_keeps_paths_and_numbers_whole(monkeypatch: pytest.MonkeyPatch, width: int, tmp_path: Path) -> None:
    terminal = terminal_of(monkeypatch, width)
    rows = [
        Row(HOST, FILE, date, 12, Sum(9_000_000, 123_456), Sum(8_000_000, 123_456), Sum(512, 1), Sum(700_000, 9))
        for date in ("2026-11-20", "2026-11-21")
    ]
    audit_show.print_result(AuditResult(scope=Scope(archive=tmp_path, journals=tmp_path), rows=rows, files=2), [])
    *table, _ = printed(terminal)
    assert max(map(cell_len, table)) <= max(width, len(f"{HOST}  {FILE}"))
    for whole in (HOST, "2026-11-20", "2026-11-21", "7.6 MiB", "512 B", "683.6 KiB"):
        assert any(whole in line for line in table), whole
    pieces = re.findall(r"[-/\w]+", " ".join(table))
    assert any(len(piece) >= 24 and piece in FILE for piece in pieces)
    assert [line for line in table if line != line.rstrip()] == []


@WIDTHS
def test_a_status_cuts_neither_hosts_nor_states_nor_headings(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    terminal = terminal_of(monkeypatch, width)
    beat = Heartbeat(version="0.1.0", partition=3, every=5.0, up=9.0, files=12, backlog=4096, backlog_age=60.0)
    hosts = [
        HostStatus(HOST, HostState.STUCK, "4.0 KiB wait, nothing moved for 60 s: no space left on device", 3.0, beat, 3)
    ]
    hosts += [HostStatus("web2", HostState.UNKNOWN, "it sends lines and no heartbeats", None, None, 3)]
    status = PartitionStatus(
        partition=3, stream="LOGS_3", messages=9, bytes=9, max_bytes=99, percent_full=9.1, first_seq=1, last_seq=9,
        pending=0, ack_pending=0, lag=1_234_567, ack_floor=9, waiting=2,
    )  # fmt: skip
    partitions = partitions_of([status], hosts, {3: CollectorSign(name="collector-of-the-centre")}, None, 1.0)
    out = standard_output()
    found = Fleet(at=1.0, hosts=tuple(hosts), partitions=partitions)
    out.print(fleet_show.tables(out, found, hosts, limit=0), crop=False)
    lines = printed(terminal)
    for whole in (HOST, "stuck", "unknown", "host", "state", "1234567", "collector-of-the-centre"):
        assert any(whole in line for line in lines), whole
    assert not any("…" in line or "..." in line for line in lines)
    assert max(map(cell_len, lines[:4])) <= max(width, 90)


def test_a_status_for_programs_has_a_version_and_both_times() -> None:
    fields = fleet_json(Fleet(at=1_800_000_000.25))
    assert (fields["v"], fields["at"], fields["time"]) == (1, 1_800_000_000.25, "2027-01-15T08:00:00Z")
