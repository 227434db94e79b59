"""Ctrl-C in the first second of every verb: 130, or the program's own clean end, and no traceback."""

import os
import signal
import subprocess
import sys
import time

import pytest

from shipper.main import entry_points

PROGRAM = (
    "import _signal, os; _signal.signal(_signal.SIGINT, lambda *_: os._exit(130)); "
    "from shipper.__main__ import main; print('up', flush=True); main()"
)
"""What the console script does. Before its first line, Python decides what a signal does; here our handler does."""
MOMENTS_SECONDS = (0.01, 0.03, 0.06, 0.1, 0.16, 0.24, 0.35, 0.5, 0.7, 1.0)
MOMENTS_SECONDS = MOMENTS_SECONDS[:: max(1, len(MOMENTS_SECONDS) // int(os.environ["FSHIPPER_INTERRUPTS"]))]

ARGUMENTS = {
    "produce": ["--url", "{url}", "--host", "web1.example.net", "--listen", "127.0.0.1:0", "{here}/*.log"],
    "validate": ["--connect", "--url", "{url}", "{here}/a.log"],
    "consume": ["--url", "{url}", "--listen", "127.0.0.1:0"],
    "audit": ["{here}/archive"],
    "dlq": ["ls", "--url", "{url}"],
    "tail": ["--url", "{url}"],
    "replay": ["--url", "{url}"],
    "status": ["--url", "{url}", "--watch"],
    "redact": ["{here}/archive", "--match", "x"],
    "partition": ["events", "--url", "{url}"],
    "hosts": ["add", "--dir", "{here}/access", "a.example.net"],
    "report": ["--archive", "{here}/archive", "--out", "{here}/report", "--wait", "1h", "--date", "today"],
    "server": ["--port", "-1", "--store", "{here}/nats"],
    "demo": ["--no-report", "--out", "{here}/demo"],
    "install": ["--help"],
}
"""What keeps each verb busy, where it can be; one that is new begins with --help."""
DAEMONS = {"produce", "consume"}
"""They drain and end with 0, once they handle signals."""
VERBS = sorted(entry.name for entry in entry_points("fshipper.commands"))


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    made = tmp_path_factory.mktemp("interrupted")
    (made / "a.log").write_bytes(b"one\n")
    (made / "archive").mkdir()
    return made


def started(verb, here, url) -> subprocess.Popen:
    given = [text.format(here=here, url=url) for text in ARGUMENTS.get(verb, ["--help"])]
    places = {"SHIPPER_STATE": str(here / "state"), "SHIPPER_DIRECTORY": str(here / "collected"), "TMPDIR": str(here)}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, verb, *given],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here,
        start_new_session=True, env=os.environ | places,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def interrupted(process, number, seconds) -> tuple[int, str, str, bool]:
    """The exit code, the texts on stdout and stderr, and whether the program still ran when the signal was sent."""
    try:
        process.wait(seconds)
        reached = False
    except subprocess.TimeoutExpired:
        # The test itself may have been paused for longer than `seconds`: a program that has ended gets no signal.
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        reached = ended is None
        os.killpg(process.pid, number)
    shown, said = process.communicate(timeout=60)
    if process.returncode == 0 and "--help" in process.args and HELP_LINE in shown:
        reached = False  # it had printed its whole help and was ending
    return process.returncode, shown, said, reached


HELP_LINE = "Usage: fshipper "
"""The first words of every help text, which is printed as a whole."""
OWN_ENDS = {0, 2, 64, 69, 78}
"""Exit codes of commands that had said what they found before the signal came."""


@pytest.mark.parametrize("verb", VERBS)
def test_sigint_in_the_first_second_prints_no_traceback(verb, here, natsd):
    for seconds in MOMENTS_SECONDS:
        code, shown, said, reached = interrupted(started(verb, here, natsd.url), signal.SIGINT, seconds)
        assert "Traceback" not in said, (seconds, said)
        assert "KeyboardInterrupt" not in said, (seconds, said)
        has_told = said.startswith(("error: ", "note: ")) or (shown and code != 0)
        if not reached or (code in OWN_ENDS and has_told):
            break  # it had nothing more to do
        own_end = verb in DAEMONS | {"server", "demo", "status"}
        early = verb == "server" and code == -signal.SIGINT  # it is nats-server now, which does not handle signals yet
        assert code == 130 or early or (own_end and code in {0, 130}), (seconds, code, said)
        if not own_end:
            assert len(said.splitlines()) <= 2, (seconds, said)


@pytest.mark.parametrize("verb", sorted(DAEMONS))
def test_sigterm_while_a_daemon_starts_ends_it_quietly(verb, here, natsd):
    for seconds in MOMENTS_SECONDS:
        code, _, said, reached = interrupted(started(verb, here, natsd.url), signal.SIGTERM, seconds)
        assert reached
        assert code in {0, -signal.SIGTERM}, (seconds, code, said)
        assert "Traceback" not in said, (seconds, said)


def test_sigint_is_handled_where_the_shell_had_it_ignored(here, natsd):
    ignoring = f"trap '' INT; exec {sys.executable} -c \"{PROGRAM}\" tail --url {natsd.url}"
    process = subprocess.Popen(["sh", "-c", ignoring], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)

    _, said = process.communicate(timeout=60)

    assert (process.returncode, "Traceback" in said) == (130, False)


def test_sigint_at_the_very_end_leaves_the_exit_code(here):
    """The signal is sent while the interpreter finalizes: after the last line of Python that the program runs."""
    late = "import os, sys\nclass Late:\n  def __del__(self, kill=os.kill, pid=os.getpid()): kill(pid, 2)\n"
    program = f"{late}sys.late = Late()\n" + "from shipper.__main__ import main; main()"

    verb = [sys.executable, "-c", program, "dlq", "ls", "--url", "nats://127.0.0.1:1"]
    ended = subprocess.run(verb, cwd=here, capture_output=True, timeout=60, check=False)

    assert ended.returncode == 69, ended


INTERRUPTED = """
import os, weakref
class Any: pass
here = Any()
known = weakref.ref(here, lambda _: os.kill(os.getpid(), 2))
del here
"""


def test_an_interrupt_within_an_import_ends_the_process_and_prints_nothing(tmp_path):
    """Python ignores an exception in such a callback, prints it, and goes on."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    program = "from shipper.interrupts import importing\nwith importing():\n  import interrupted\nprint('it went on')"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
