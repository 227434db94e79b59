"""Every output for programs has the version of its form, with a real server and a real archive."""

import json
import os
import subprocess
import sys

import pytest
from harness.natsd import running

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
        environment = os.environ | {"NATS_URL": server.url, "HOME": str(place)}

        def run(*typed):
            command = [sys.executable, "-m", "shipper", *(word.format(**paths) for word in typed)]
            return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)

        (place / "root").mkdir()
        (place / "app.log").write_text("a line\nanother line\n")
        (place / "promtail.yaml").write_text(PROMTAIL)
        assert run("partition", "apply", "--partitions", "1", "--yes").returncode == 0
        state = ("--host", "web1.example.net", "--state", "{state}")
        assert run("produce", "--once", "{log}", *state).returncode == 0
        publish = "import asyncio, nats, sys\nasync def go():\n c = await nats.connect(sys.argv[1])\n"
        publish += (
            " await c.jetstream().publish('logs.p0.web1.example.net', b'x', headers={'Log-Encoding': 'no-such'})\n"
        )
        subprocess.run([sys.executable, "-c", publish + "asyncio.run(go())", server.url], check=True)
        done = run("consume", "--drain", "--seal", "--archive", "{archive}")
        assert done.returncode == 0, done.stderr
        (place / "exported").write_text(run("partition", "export", "--json").stdout)
        yield run


def test_every_json_output_has_the_version_of_its_form(fshipper):
    for name in ORDER:
        done = fshipper(*name.split(), *RUN[name], "--json")
        assert "Traceback" not in done.stderr, name
        try:
            found = [json.loads(done.stdout)]
        except ValueError:
            found = [json.loads(line) for line in done.stdout.splitlines()]
        objects = [each for one in found for each in (one if isinstance(one, list) else [one])]
        assert objects, f"{name}: {done.stderr}"
        assert all(isinstance(each.get("v"), int) for each in objects), f"{name}: {objects[0]}"


def test_a_desired_state_in_json_can_be_read_again(fshipper):
    done = fshipper("partition", "plan", "--file", "{exported}", "--json")
    assert done.returncode in {0, 2}, done.stderr
