import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic_core import SchemaError, SchemaValidator, core_schema

from shipper import __version__, main
from shipper.errors import ConfigError, Fatal, Poison, SessionLost, StreamFull, Transient, Unavailable, UsageError

FACE = "from shipper.main import main; main()"
NO_SUBSCRIBER = "nats://127.0.0.1:1"
VERBS = ["produce", "consume", "partition", "report", "server", "demo"]


def fshipper(*arguments, **options):
    """The command as a process, for what a shell sees of it."""
    return subprocess.run(
        [sys.executable, "-c", FACE, *arguments], capture_output=True, text=True, timeout=60, check=False, **options
    )


def test_help_lists_every_verb_and_what_it_does(capsys):
    assert main.run(["--help"]) == 0
    said = capsys.readouterr().out
    for verb in [*VERBS, "version"]:
        assert any(line.split()[:1] == [verb] and len(line.split()) > 2 for line in said.splitlines())


def test_without_a_verb_the_help_is_shown_and_the_usage_is_wrong(capsys):
    assert main.run([]) == 64
    assert "usage: fshipper" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["version", "--version"])
def test_the_version_is_that_of_the_package(word, capsys):
    assert main.run([word]) == 0
    assert capsys.readouterr().out == f"fshipper {__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_help(verb, capsys):
    assert main.run([verb, "--help"]) == 0
    assert "Usage: fshipper" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["shipp"], ["produce", "--bogus"], ["consume", "--url"], ["partition", "bogus"], ["consume", "--seal"]],
)
def test_wrong_usage_is_64_with_a_sentence_and_a_hint(arguments, capsys):
    assert main.run(arguments) == 64
    said = capsys.readouterr()
    assert said.err.startswith("error: ")
    assert "\nhint: " in said.err
    assert said.out == ""


def test_a_wrong_configuration_is_78_with_every_problem_on_a_line(capsys, monkeypatch):
    monkeypatch.setenv("SHIPPER_BLOK", "1")
    assert main.run(["produce", "--subject", "a.b", "/x"]) == 78
    said = capsys.readouterr().err.splitlines()
    assert len([line for line in said if line.startswith("error: ")]) == 2


def test_no_server_is_69_with_what_to_do(capsys):
    assert main.run(["partition", "status", "--url", NO_SUBSCRIBER]) == 69
    said = capsys.readouterr().err
    assert "no NATS server answers" in said
    assert "hint: start one" in said


@pytest.mark.parametrize(
    "arguments",
    [["shipp"], ["produce", "--bogus"], ["partition", "status", "--url", NO_SUBSCRIBER], ["report", "--date", "x"]],
)
def test_a_person_sees_no_traceback(arguments):
    done = fshipper(*arguments)
    assert done.returncode in {64, 69, 78}
    assert "Traceback" not in done.stderr + done.stdout
    assert done.stderr.startswith("error: ")


def test_the_exit_code_is_the_process_s():
    assert (fshipper("--help").returncode, fshipper().returncode) == (0, 64)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_output_pipe_is_no_error(monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with subprocess.Popen(
        [sys.executable, "-c", FACE, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_the_face_imports_no_program_before_it_runs_one():
    program = """
import sys
from shipper.main import run
run(["--help"])
rooms = {"producer", "consumer", "partitioner", "spark_analytics", "deploy", "nats", "pyspark"}
sys.exit(str(rooms & set(sys.modules)) if rooms & set(sys.modules) else 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class Verb:
    """An entry point whose program raises."""

    name = "boom"

    def __init__(self, error):
        self.error = error

    def load(self):
        raise self.error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 64),
        (Unavailable("x"), 69),
        (SessionLost("x"), 69),
        (StreamFull("x"), 69),
        (Transient("x"), 69),
        (ConfigError("x"), 78),
        (Fatal("x"), 1),
        (Poison("x"), 1),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 0),
    ],
)
def test_each_error_has_its_exit_code(monkeypatch, error, code):
    monkeypatch.setattr(main, "entry_points", lambda group: [Verb(error)])
    assert main.run(["boom"]) == code


def test_an_interrupt_while_the_settings_are_read_is_an_interrupt_although_pydantic_wraps_it(monkeypatch):
    class Interrupting:
        def __repr__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(SchemaError) as wrapped:
        SchemaValidator(core_schema.literal_schema([Interrupting()]))
    monkeypatch.setattr(main, "entry_points", lambda group: [Verb(wrapped.value)])
    assert main.run(["boom"]) == 130


def test_a_message_of_several_lines_is_several_errors_and_one_hint(monkeypatch, capsys):
    monkeypatch.setattr(main, "entry_points", lambda group: [Verb(Fatal("one\ntwo", hint="do this"))])
    main.run(["boom"])
    assert capsys.readouterr().err == "error: one\nerror: two\nhint: do this\n"


def test_an_error_without_a_message_has_the_text_of_its_class(monkeypatch, capsys):
    monkeypatch.setattr(main, "entry_points", lambda group: [Verb(StreamFull())])
    main.run(["boom"])
    assert "The stream or the server is full" in capsys.readouterr().err


def test_a_defect_keeps_its_trace(monkeypatch):
    monkeypatch.setattr(main, "entry_points", lambda group: [Verb(ZeroDivisionError("a defect"))])
    with pytest.raises(ZeroDivisionError):
        main.run(["boom"])


@pytest.mark.parametrize(
    "url", [["--url", "nats://me:hush@127.0.0.1:1"], ["--url=127.0.0.1:1,nats://token@127.0.0.1:1"]]
)
def test_a_password_on_the_command_line_works_and_is_warned_of_once(url, capsys):
    assert main.run(["partition", "status", *url]) == 69
    said = capsys.readouterr().err
    assert said.count("warning: ") == 1
    assert "NATS_URL in an environment file" in said
    assert "hush" not in said


@pytest.mark.parametrize("arguments", [["--url", NO_SUBSCRIBER], ["--url", f"127.0.0.1:1,{NO_SUBSCRIBER}"], ["--url"]])
def test_a_url_without_a_password_is_not_warned_of(arguments, capsys):
    main.run(["partition", "status", *arguments])
    assert "warning: " not in capsys.readouterr().err


@pytest.mark.parametrize("group", ["fshipper.services", "fshipper.checks"])
def test_what_programs_find_by_its_entry_point_exists(group):
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["entry-points"][
        group
    ]
    assert declared
    assert all(callable(pkgutil.resolve_name(place)) for place in declared.values())
