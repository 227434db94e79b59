"""Every output for programs has the version of its form, with a real server and a real archive."""

import json
import os
import subprocess
import sys

import pytest
from harness.natsd import running

from shipper.main import run
from shipper.manual.catalogue import pages

PAGES = {" ".join(words[1:]): page for words, page in pages().items() if page.options or page.arguments}
WITH_JSON = {name for name, page in PAGES.items() if any("--json" in option.names for option in page.options)}

NO_JSON = {
    "browse": "serves pages",
    "completion": "prints a script",
    "consume": "its log is JSON with --log-format json",
    "dlq drop": "acts, and prints what it dropped",
    "dlq requeue": "acts, and prints what it sent",
    "fleet init": "acts, and prints the next steps",
    "fleet revoke": "acts",
    "fleet serve": "its log",
    "hosts reads": "acts",
    "hosts revoke": "acts",
    "join": "acts",
    "leave": "acts",
    "partition apply": "acts; `plan --json` shows it before",
    "partition copy-config": "acts",
    "partition edge": "acts",
    "partition edit": "acts; `export --json` shows the result",
    "partition serve": "its log is JSON with --log-format json",
    "report compact": "writes tables",
    "report patterns": "prints a table with tabs",
    "report prepare": "acts",
    "report query": "has --format json",
    "report send": "acts",
    "server": "becomes nats-server",
    "web": "serves pages",
    "web user": "acts",
}
"""Commands without --json, and why."""

ELSEWHERE = {
    "demo": "a minute; deploy/test_demo_verb.py",
    "down": "deploy/test_up_verb.py",
    "fleet token": "a site with TLS; partitioner/test_join.py",
    "fleet tokens": "the same",
    "hosts migrate": "an older site; partitioner/test_access_migration.py",
    "partition balance": "a cluster; partitioner/test_leaders_on_a_cluster.py",
    "partition events": "waits for events; partitioner/test_partition_on_a_server.py",
    "report": "report.json, which has a schema; spark/test_report_files.py",
    "report show": "the same",
    "report week": "spark/test_report_week.py",
    "up": "deploy/test_up_verb.py",
}
"""Commands whose JSON needs more than a server and an archive, and the tests of them."""

RUN = {
    "audit": ("--archive", "{archive}"),
    "capacity": ("--hosts", "20", "--per-day", "5GiB"),
    "dlq ls": ("--limit", "5"),
    "dlq show": ("1",),
    "explain": ("web1.example.net", "{log}", "--archive", "{archive}"),
    "hosts init": ("--dir", "{roster}"),
    "hosts add": ("web9.example.net", "--dir", "{roster}"),
    "hosts list": ("--dir", "{roster}"),
    "install": ("--role", "host", "--dry-run", "--root", "{root}"),
    "migrate": ("{promtail}",),
    "partition account": (),
    "partition backup": ("{backup}",),
    "partition export": (),
    "partition import": ("{exported}",),
    "partition move": ("--partitions", "2", "--dry-run"),
    "partition plan": ("--partitions", "1"),
    "partition purge": ("p0", "--all", "--yes", "--force"),
    "partition restore": ("{backup}", "LOGS_0", "--as", "LOGS_OLD", "--subjects", "old.>"),
    "partition rm-message": ("p0", "1", "--yes", "--force"),
    "partition status": (),
    "produce": ("--dry-run", "{log}", "--host", "web1.example.net", "--state", "{state}"),
    "redact": ("{archive}", "--host", "web1.example.net", "--match", "line", "--dry-run"),
    "replay": ("--archive", "{archive}", "--speed", "max"),
    "search": ("line", "--archive", "{archive}"),
    "status": (),
    "tail": ("--archive", "{archive}"),
    "validate": ("{log}", "--host", "web1.example.net", "--state", "{state}"),
    "wait": ("--timeout", "0.1", "--host", "web1.example.net"),
}
"""What is typed after each command, in an order in which each finds what it shows."""
ORDER = [
    *(name for name in RUN if name not in {"partition purge", "partition rm-message"}),
    "partition rm-message",
    "partition purge",
]
PUBLISH = """
import asyncio, nats, sys

async def publish():
    connection = await nats.connect(sys.argv[1])
    await connection.jetstream().publish("logs.p0.web1.example.net", b"x", headers={"Log-Encoding": "no-such"})

asyncio.run(publish())
"""
"""Stores a message that becomes a dead letter."""
PROMTAIL = "scrape_configs:\n- static_configs:\n  - labels: {__path__: /var/log/*.log}\n"


def test_every_command_has_json_or_a_reason():
    assert set(PAGES) - WITH_JSON == NO_JSON.keys()
    assert RUN.keys() | ELSEWHERE.keys() == WITH_JSON


@pytest.fixture(scope="module")
def fshipper(tmp_path_factory):
    """Runs a command on a site with one host, one archived file and one dead letter."""
    place = tmp_path_factory.mktemp("site")
    names = ("archive", "log", "roster", "root", "promtail", "backup", "exported", "state")
    paths = {name: str(place / name) for name in names} | {
        "log": str(place / "app.log"),
        "promtail": str(place / "promtail.yaml"),
    }
    with running(place / "natsd") as server:
        environment = {"NATS_URL": server.url, "HOME": str(place)}

        def start(*typed):
            command = [sys.executable, "-m", "shipper", *(word.format(**paths) for word in typed)]
            return subprocess.run(
                command, capture_output=True, text=True, check=True, env=os.environ | environment, timeout=300
            )

        def run_here(monkeypatch, capfd, *typed):
            for name, value in environment.items():
                monkeypatch.setenv(name, value)
            code = run([word.format(**paths) for word in typed])
            return code, capfd.readouterr()

        (place / "root").mkdir()
        (place / "app.log").write_text("a line\nanother line\n")
        (place / "promtail.yaml").write_text(PROMTAIL)
        start("partition", "apply", "--partitions", "1", "--yes")
        start("produce", "--once", "{log}", "--host", "web1.example.net", "--state", "{state}")
        subprocess.run([sys.executable, "-c", PUBLISH, server.url], check=True)
        start("consume", "--drain", "--seal", "--archive", "{archive}")
        (place / "exported").write_text(start("partition", "export", "--json").stdout)
        yield run_here


def test_every_json_output_has_the_version_of_its_form(fshipper, capfd, monkeypatch):
    for name in ORDER:
        code, shown = fshipper(monkeypatch, capfd, *name.split(), *RUN[name], "--json")
        try:
            found = [json.loads(shown.out)]
        except ValueError:
            found = [json.loads(line) for line in shown.out.splitlines()]
        objects = [each for one in found for each in (one if isinstance(one, list) else [one])]
        assert objects, f"{name} ended with {code}: {shown.err}"
        assert all(isinstance(each.get("v"), int) for each in objects), f"{name}: {objects[0]}"


def test_a_desired_state_in_json_can_be_read_again(fshipper, capfd, monkeypatch):
    code, shown = fshipper(monkeypatch, capfd, "partition", "plan", "--file", "{exported}", "--json")
    assert code in {0, 2}, shown.err
