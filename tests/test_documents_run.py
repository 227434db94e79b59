"""Every command in the documents is typed as it is written there, on an unused machine."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer
from harness.documents import DOCUMENTS, ROOT, commands, mentions, name

from shipper.main import GROUP

ELSEWHERE = {
    "spark-submit ": "wants a Spark cluster",
    "sudo apt-get install openjdk": "Java is there",
    "python -m pip wheel": "fetches what builds wheels; tests/deploy/test_packaging.py builds one",
}
"""Beginnings of commands that are not typed, and why. Those of `SHIMS` in fresh_machine.py are stood in for."""
COMING: set[str] = set()
"""Verbs that documents name before they are here."""
PLACEHOLDERS = {"VERB", "COMMAND", "--help", "version"}
RUNNING = (
    ". .venv/bin/activate",
    "fshipper server &",
    "fshipper partition apply --partitions 4",
    "export SHIPPER_DIRECTORY=/srv/logs",
    "fshipper consume &",
    "fshipper produce '/var/log/nginx/*.log' /var/log/syslog &",
    "HOSTNAME=db1.example.net fshipper produce --once /var/log/syslog",
    "HOSTNAME=web7 fshipper produce --listen 127.0.0.1:0 /var/log/syslog",
    "python tests/bad_messages.py 20",
)
BEFORE = {
    "README.md": RUNNING[:1],
    "docs/development/benchmarks.md": (),
    "docs/start.md": RUNNING[:1],
    "docs/guides/one-machine.md": RUNNING[:1],
    "docs/guides/services.md": RUNNING[:1],
    "docs/guides/fleet.md": RUNNING[:1],
    "docs/guides/join.md": RUNNING[:1],
    "docs/guides/other-shippers.md": (
        *RUNNING[:1],
        "mkdir -p /etc/promtail",
        "echo 'scrape_configs: [{static_configs: [{labels: {__path__: /var/log/*.log}}]}]' > /etc/promtail/config.yml",
    ),
    "docs/reference/search.md": (
        *RUNNING,
        "echo 'connection refused, timeout: \"order 7495911\" in a OR (b' > /srv/error.log",
        "echo 'level=error status=503 path=/orders' >> /srv/error.log",
        "HOSTNAME=web8 fshipper produce --once /srv/error.log",
        "until fshipper search refused > /dev/null; do sleep 0.5; done",
    ),
}
"""What was typed before; documents that are not named here speak of a fleet that runs."""
UNSHARE = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--uts", "--mount-proc", "--map-root-user")
TYPED = [path for path in DOCUMENTS if commands(path.read_text())]


def why_not() -> str:
    """What is lacking here for a machine of its own."""
    if not shutil.which("unshare"):
        return "no unshare: apt-get install util-linux"
    if os.geteuid() != 0:
        return "needs root, to write below /etc"
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else ""


def sentence(path: Path, told: dict) -> str:
    head = f"{name(path)}:{told['line']}: {told['text']}\n  ended with {told['code']}, not {told['expected']}"
    return f"{head}\n{told['output']}"


@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.parametrize("path", TYPED, ids=name)
def test_every_command_does_what_the_document_describes(path: Path, tmp_path: Path):
    before = BEFORE.get(name(path), RUNNING)
    typed = [{"line": 0, "text": text, "expected": 0} for text in before] + [
        {"line": command.line, "text": command.text, "expected": command.code}
        for command in commands(path.read_text())
        if not command.text.startswith(tuple(ELSEWHERE))
    ]
    done = subprocess.run(
        [*UNSHARE, sys.executable, Path(__file__).with_name("harness") / "fresh_machine.py", str(tmp_path)],
        input=json.dumps(typed), capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    wrong = [each for each in told if each["code"] != each["expected"] or "Traceback" in each["output"]]
    print("\n".join(f"{each['seconds']:5} s  {each['text']}" for each in told))
    assert not wrong, "\n".join(sentence(path, each) for each in wrong)


@functools.cache
def verbs() -> dict[str, typer.main.Typer]:
    return {entry.name: typer.main.get_command(entry.load()) for entry in entry_points(group=GROUP)}


def unknown(said: str, known: dict) -> str:
    """What of a mention does not exist: a verb, or an option of it; empty: all of it is there."""
    words = re.sub(r"[][\\,]", " ", said.partition("fshipper ")[2].replace("\\|", "|")).split()
    if not words or words[0] in PLACEHOLDERS or " ".join(words[:2]) in COMING:
        return ""
    if words[0] not in known:
        return words[0]
    meant = [known[words[0]]]
    below = getattr(meant[0], "commands", {})
    if below and words[1:] and (set(words[1].split("|")) <= set(below) or not meant[0].invoke_without_command):
        if missing := set(words[1].split("|")) - set(below):
            return f"{missing} of {said}"
        meant += [below[name] for name in words[1].split("|")]
    options = {"--help", *(name for command in meant for each in command.params for name in each.opts)}
    return " ".join({word.partition("=")[0] for word in words if word.startswith("-") and word != "-"} - options)


def test_every_verb_and_option_that_is_named_exists():
    missing = {
        name(path): [unknown(each, verbs()) for each in sorted(mentions(path.read_text()))] for path in DOCUMENTS
    }
    assert {path: whys for path, whys in missing.items() if any(whys)} == {}


def test_a_verb_or_option_that_is_not_there_would_be_noticed():
    known = verbs()
    assert unknown("fshipper dlq burn 3", known)
    assert unknown("fshipper audit --deep", known)
    assert unknown("sudo fshipper fly", known)
    assert not unknown("fshipper dlq ls|show|requeue|drop", known)
    assert not unknown("fshipper produce [--once] PATH...", known)


def test_the_checkout_is_where_commands_are_typed():
    assert (ROOT / "README.md").exists()
