"""`fshipper partition`: the options that its command line declares are the parameters of the work that it runs."""

import inspect
from typing import get_type_hints

import pytest

from partitioner.cli import app

COMMANDS = {each.name or each.callback.__name__: each.callback.__wrapped__ for each in app.registered_commands}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_work_of_a_command_takes_its_options(name):
    options = COMMANDS[name]
    work = options(**dict.fromkeys(inspect.signature(options).parameters))
    assert _typed(work) == _typed(options)


def _typed(function):
    hints = get_type_hints(function)
    return [(each.name, each.kind, hints[each.name]) for each in inspect.signature(function).parameters.values()]
