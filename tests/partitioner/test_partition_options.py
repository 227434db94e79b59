"""`fshipper partition`: the work of a command takes the options that its command line declares."""

import inspect
import pkgutil

import pytest

from partitioner.cli import COMMANDS


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_work_of_a_command_takes_its_options(command):
    (parameter,) = inspect.signature(pkgutil.resolve_name(command.work)).parameters.values()
    assert parameter.annotation is command.options
