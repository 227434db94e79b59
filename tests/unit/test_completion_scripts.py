"""The completion in real shells: bash and zsh on a terminal with the Tab key, fish by its own `complete -C`."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from shipper.manual.__main__ import PLACES, write

SCRIPTS = sysconfig.get_path("scripts")
SECONDS = 60.0
"""Maximum time until a shell shows what it completes."""

TYPED = {
    "fshipper stat": "fshipper status",
    "fshipper partition pla": "fshipper partition plan",
    "fshipper partition plan --templ": "fshipper partition plan --template",
    "fshipper search x --coun": "fshipper search x --count",
    "fshipper search x --by st": "fshipper search x --by stored",
    "fshipper install --role=coll": "fshipper install --role=collector",
    "fshipper hosts reads hear": "fshipper hosts reads heartbeats",
    "fshipper report --out x sho": "fshipper report --out x show",
    "fshipper produce ./only-f": "fshipper produce ./only-file.log",
    "fshipper consume --archive ./only-": "fshipper consume --archive ./only-archive/",
    "fshipper tail --archive only-archive we": "fshipper tail --archive only-archive web1.example.net",
    "fshipper tail --archive only-archive --file /var/log/ap": "--file /var/log/app.log",
    "fshipper status --context pro": "fshipper status --context production",
}
"""What is typed before the Tab key, and what is there after it."""


def needed(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"no {shell} here: apt-get install {shell}")
    return found


@pytest.fixture(scope="module")
def share(tmp_path_factory) -> Path:
    """What `make install` writes below `share`."""
    directory = tmp_path_factory.mktemp("share")
    write(directory)
    return directory


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A directory with a file, an archive of one host, and a context of `nats`."""
    (tmp_path / "only-file.log").touch()
    archive = tmp_path / "only-archive" / "date=2026-11-20" / "partition=0" / "host=web1.example.net"
    archive.mkdir(parents=True)
    (archive / "_open-var~log~app.log").touch()
    (archive / "evil%1Bname-00000000000000000001.zst").touch()  # a terminal must not get it
    contexts = tmp_path / "config" / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "production.json").write_text(json.dumps({"url": "nats://127.0.0.1:4222"}))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", f"{SCRIPTS}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Shell:
    """An interactive shell on a terminal."""

    def __init__(self, *command: str) -> None:
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execve(command[0], command, {**os.environ, "TERM": "dumb", "PS1": "$ ", "INPUTRC": "/dev/null"})
        self.shown = ""

    def type(self, keys: str) -> None:
        self.shown = ""
        os.write(self._terminal, keys.encode())

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + SECONDS
        while text not in self.shown.replace("\r", ""):
            assert time.monotonic() < end, f"{text!r} was not shown: {self.shown!r}"
            if select.select([self._terminal], [], [], 0.1)[0]:
                self.shown += os.read(self._terminal, 65536).decode(errors="replace").replace("\a", "")

    def end(self) -> None:
        os.close(self._terminal)
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)


START = {
    "bash": (("--norc", "--noprofile", "-i"), "source {script}; PS1='rea''dy> '; bind 'set bell-style none'\n"),
    "zsh": (("-f", "-i"), "fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; PS1='rea''dy> '\n"),
}


@pytest.mark.starts
@pytest.mark.parametrize("name", START)
def test_the_tab_key_completes(name, share, place):
    options, first = START[name]
    shell = Shell(needed(name), *options)
    try:
        script = share / PLACES[name]
        shell.type(first.format(script=script, folder=script.parent))
        shell.wait_for("ready> ")
        for typed, completed in TYPED.items():
            shell.type(typed + "\t")
            shell.wait_for(completed)
            shell.type("\x15")  # Ctrl-U: an empty line
    finally:
        shell.end()


@pytest.mark.parametrize(("typed", "completed"), TYPED.items())
def test_fish_completes(typed, completed, share, place):
    program = f"source {share / PLACES['fish']}; complete -C '{typed}'"
    done = subprocess.run([needed("fish"), "--no-config", "-c", program], capture_output=True, text=True, check=True)
    offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert completed.split()[-1] in [each.removesuffix(" ") for each in offered], done.stderr
    assert not done.stderr


@pytest.mark.parametrize("shell", PLACES)
def test_the_command_prints_what_is_installed(shell, share):
    command = [sys.executable, "-m", "shipper", "completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == (share / PLACES[shell]).read_text()


def test_names_from_the_network_that_are_no_text_are_not_offered(place):
    command = [sys.executable, "-m", "shipper", "completion", "--list", "archived", "--archive", "only-archive"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "/var/log/app.log\n"


@pytest.mark.parametrize("checker", ["mandoc", "groff"])
def test_manual_pages_have_no_warning(checker, share):
    found = sorted((share / "man").rglob("fshipper*"))
    assert {"fshipper.1", "fshipper-search.1", "fshipper-partition-plan.1", "fshipper.toml.5"} <= {
        page.name for page in found
    }
    check = {"mandoc": ("-T", "lint", "-W", "warning"), "groff": ("-man", "-Tutf8", "-ww", "-z")}[checker]
    done = subprocess.run([needed(checker), *check, *map(str, found)], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_man_shows_a_page_with_options_settings_and_examples(share):
    page = str(share / "man" / "man1" / "fshipper-produce.1")
    done = subprocess.run(
        [needed("man"), "-l", page], capture_output=True, text=True, check=True, env=os.environ | {"MANWIDTH": "200"}
    )
    for text in (
        "--drop-lines REGEX",
        "producer.drop_lines",
        "fshipper produce --once",
        "EXIT STATUS",
        "fshipper.toml",
    ):
        assert text in done.stdout
