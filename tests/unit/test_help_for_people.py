"""The help of every command: usual options first, examples that parse, one meaning for each option."""

import re
import shlex
from collections import defaultdict

import pytest
import typer

from shipper.help.description import FEW, Option, Values
from shipper.main import GROUP, SUMMARIES, entry_points, run
from shipper.manual.catalogue import pages

PAGES = pages()
COMMANDS = {words: page for words, page in PAGES.items() if page.options}
PYTHON = re.compile(r"list\[|int range|<str>|<class|Optional|NoneType|\{[A-Z]+\}|<[A-Z]\w+\.[A-Z_]+:")

DIFFERENT = {
    "--again": "one makes a day, one the class data of Java",
    "--all": "all of what the command works on: letters, streams, messages",
    "--archive": "a report reads several archives and URIs; `fleet init` writes a setting",
    "--as": "`hosts add` gives a role, `restore` a name; scripts use both",
    "--by": "`hosts init` chooses how hosts sign in, readers choose a time, with a default of each",
    "--color": "`plan` has always, never and auto, as terraform has; readers have --no-color",
    "--context": "lines around a hit, as of grep -C; there the context of `nats` is --nats-context",
    "--count": "search counts hits, `events` ends after a number",
    "--date": "the default of a report is the last whole day",
    "--days": "`demo` makes days, `send` sends them",
    "--domain": "`migrate` names several sites",
    "--file": "`plan` reads a file of this machine; readers choose a file of the archive",
    "--for": "how long a token is valid, or how long to watch",
    "--force": "of reports: --again; else it overrides a protection",
    "--from": "`migrate` names the other shipper, readers where lines are stored",
    "--host": "of browse and web: --allowed-host; of server: --address; else a host, with the default of the command",
    "--hosts": "of audit: --producers; `hosts add` names the hosts of a site",
    "--ignore-case": "of --grep, or of the query",
    "--json": "a line of output is an object where there is no end of them",
    "--limit": "defaults fit the size of what is listed",
    "--listen": "addresses of different programs",
    "--max-bytes": "of all partitions, or of new ones",
    "--name": "of a collector, or of standard input",
    "--out": "demo writes more than reports",
    "--output": "one file, or the name of plain messages in the archive",
    "--partitions": "a number where they are made, a choice where they are read",
    "--raw": "a payload, or lines",
    "--reason": "a filter of letters, or a text for the record with the default of the command",
    "--remove": "what `up` stored, or an account",
    "--replace": "a key, or a backup",
    "--replicas": "of all streams, of new ones, or as they were saved",
    "--report": "demo makes one, web serves them",
    "--role": "`install` has more roles and no default; an account has other ones",
    "--since": "days where whole days are read, else any time",
    "--state": "of status: --in-state; else the journals, or the checkpoint of a producer",
    "--store": "of a service, or of this user",
    "--stream": "letters of a stream, or events about it",
    "--subject": "`hosts init` writes it down",
    "--subjects": "of the stream that is restored, or copied",
    "--top": "rows of each table of a report, or values of a field",
    "--timezone": "a report has days of UTC",
    "--until": "days where whole days are read, else any time",
    "--yes": "of audit: it removes what --repair-duplicates has shown",
    "-f": "--follow, as of tail; of `partition plan` --file, as of kubectl",
    "-i": "as --ignore-case",
    "-w": "--word-regexp, as of grep; of status --watch, as of kubectl",
    "-y": "as --yes",
}
"""Options that have several meanings, defaults or types, and why; an alias with one meaning is named first."""


def meaning(option: Option) -> tuple[object, ...]:
    setting = option.setting.rpartition(".")[2]  # of the producer or the collector: the same
    return option.shown, option.default, option.repeats, setting, option.help


def test_every_command_has_a_place_and_a_description():
    assert {entry.name for entry in entry_points(GROUP)} <= SUMMARIES.keys()


def test_an_option_means_the_same_in_every_command():
    meanings = defaultdict(set)
    for page in PAGES.values():
        for option in page.options:
            for name in option.names:
                meanings[name].add(meaning(option))
    several = {name for name, found in meanings.items() if len(found) > 1}
    assert several - DIFFERENT.keys() == set()
    assert DIFFERENT.keys() - several == set(), "these have one meaning now"


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_no_short_option_or_alias_has_two_meanings_in_one_command(words):
    names = [name for option in PAGES[words].options for name in (*option.names, option.negative) if name]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("words", [words for words in PAGES if words not in {("fshipper",), ("fshipper", "version")}])
def test_help_shows_the_usual_options_and_help_all_every_option(capsys, words):
    page = PAGES[words]
    assert run([*words[1:], "--help"]) == 0
    shown = capsys.readouterr().out
    assert run([*words[1:], "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert len(page.usual) <= FEW
    assert all(option.name in shown for option in page.usual)
    assert all(name in whole for option in page.options for name in option.names)
    assert ("--help-all" in shown) == (len(page.usual) < len(page.options))
    assert ("Exit codes: 0" in shown) == bool(page.options or page.arguments)
    assert not PYTHON.search(shown + whole)
    for option in page.options:
        assert not option.setting or option.setting in "".join(whole.split())


@pytest.mark.parametrize("words", [words for words, page in PAGES.items() if page.options or page.arguments])
def test_every_command_has_examples_that_can_be_parsed(words):
    page = PAGES[words]
    assert page.examples
    command = typer.main.get_command(next(e for e in entry_points(GROUP) if e.name == words[1]).load())
    for example in page.examples:
        typed = shlex.split(example.partition(" > ")[0])
        assert typed[: len(words) - 1] == list(words[1:]), example
        called = command if len(words) == 2 else command.commands[words[2]]
        called.make_context(" ".join(words), typed[len(words) - 1 :])


def test_the_help_without_a_command_has_groups_and_a_line_for_each_command(capsys):
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("The first day:") < shown.index("Read logs:") < shown.index("Many hosts:")
    for entry in entry_points(GROUP):
        assert len([line for line in shown.splitlines() if line.startswith(f"  {entry.name} ")]) == 1
    assert max(map(len, shown.splitlines())) <= 100


def test_an_option_that_is_a_number_is_no_name():
    search = PAGES["fshipper", "search"]
    around = next(each for each in search.options if each.name == "--context")
    assert (around.shown, around.values) == ("N", Values.TEXT)


def test_help_of_a_command_is_the_same_by_both_ways(capsys):
    run(["help", "partition", "plan"])
    first = capsys.readouterr().out
    run(["partition", "plan", "--help"])
    assert first == capsys.readouterr().out


@pytest.mark.parametrize("columns", [30, 60, 300])
def test_help_fits_the_terminal(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    run(["produce", "--help-all"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= max(min(columns, 100), 60)


MISTYPED = {
    ("stauts",): "did you mean fshipper status?",
    ("STATUS",): "did you mean fshipper status?",
    ("partition", "plna"): "did you mean fshipper partition plan?",
    ("dlq", "list"): "did you mean fshipper dlq ls?",
    ("search", "x", "--coutn", "all"): "did you mean --count?",
    ("install", "--role", "colector"): "did you mean collector?",
    ("partition", "plan", "--color", "allways"): "did you mean always?",
    ("report", "show", "--archive", "x"): "--archive is written before the command: fshipper report --archive",
    ("status", "--log-levle", "info"): "fshipper status --help-all shows all options",
}


@pytest.mark.parametrize("typed", MISTYPED, ids=" ".join)
def test_a_mistyped_word_gets_the_one_that_is_meant(capsys, typed):
    assert run([*typed]) == 64
    assert MISTYPED[typed] in capsys.readouterr().err
