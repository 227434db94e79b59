"""The help of every command: no types of Python, no summary that is cut, a description of every command."""

import pytest

from shipper.main import GROUP, SUMMARIES, entry_points, run


def test_every_command_has_a_place_and_a_description():
    assert {entry.name for entry in entry_points(GROUP)} <= SUMMARIES.keys()


@pytest.mark.parametrize("command", [("search",), ("produce",), ("status",), ("partition",), ("hosts",), ("report",)])
def test_help_is_written_for_people(capsys, command):
    assert run([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "list[" not in shown
    assert "int range" not in shown
    assert "<str>" not in shown
    assert "{" not in shown.splitlines()[0]
    assert "[[" not in shown.splitlines()[0]
    assert "...\n" not in shown.partition("Commands:")[2]


def test_a_mistyped_command_gets_the_one_that_is_meant(capsys):
    assert run(["stauts"]) == 64
    assert "did you mean fshipper status?" in capsys.readouterr().err
