"""How often each rule of redaction fired: from a real producer through kills of the collector to the report."""

import datetime as dt
import json
import re
from pathlib import Path

from harness.fleet import Fleet, until
from harness.natsd import NatsServer

HOST = "web1.example.net"
LINE = b"%06d password=hunter2 card 4111 1111 1111 1111 token=abc\n"
LINES = 3000


def test_the_report_has_each_rule_by_host_through_kills_of_the_collector(tmp_path: Path, natsd: NatsServer) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"")
    options = ("--redact", "token", "--redact", "card", "--redact", r"^0*\d+", "--block", "16KiB", "--poll", "0.02s")
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        producer, collector = fleet.produce(HOST, log, options=options), fleet.consume()
        for part in range(3):
            before = len(fleet.archived(HOST, log))
            with log.open("ab") as writer:
                writer.writelines(LINE % number for number in range(part * LINES // 3, (part + 1) * LINES // 3))
            until(lambda size=before: len(fleet.archived(HOST, log)) > size, what=lambda: producer.log + collector.log)
            collector.restart()
        until(lambda: fleet.archived(HOST, log).count(b"\n") == LINES, what=lambda: producer.log + collector.log)
        assert producer.stop() == 0
        collector.kill()
        fleet.drain("--seal")
        expected = {"card": LINES, "password-name": LINES, "pattern-1": LINES, "token-name": LINES}
        sums: dict[str, int] = {}
        for segment in fleet.segments():
            for rule, places in segment.redacted.items():
                sums[rule] = sums.get(rule, 0) + places
        assert sums == expected
        today = dt.datetime.now(dt.UTC).date().isoformat()
        fleet.run("report", "--date", today, "--out", str(tmp_path / "report"))
        made = tmp_path / "report" / today / "report.json"
        redacted = json.loads(made.read_bytes())["redacted"]
        assert {row["rule"]: row["places"] for row in redacted["most"]} == expected
        assert {row["host"] for row in redacted["most"]} == {HOST}
        page = made.with_name("report.html").read_text()
        assert re.search(r'id="redacted".*12,000 places replaced on 1 host', page, re.DOTALL)
        asked = fleet.must(
            "report",
            "query",
            "--format",
            "json",
            "--out",
            str(tmp_path / "report"),
            "SELECT rule, places FROM redacted_daily",
        )
        assert {row["rule"]: row["places"] for row in map(json.loads, asked.splitlines())} == expected
