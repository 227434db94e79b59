"""Tables on narrow terminals: what is wrapped, what is left out, and what is never cut."""

import io

import pytest
from rich.console import Console
from rich.text import Text

from shipper.table_printer import LEAST_WIDTH, STACK, fitted

COLUMNS = ("host", "file", "state", "size")
PATH = "/srv/applications/shop/current/log/production.log"
ROWS = [[Text(cell) for cell in ("web1.example.net", PATH, "shipping", "1,234,567")] for _ in range(2)]


def shown(width: int, *, give_up: tuple[str, ...] = (STACK,), boxed: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    above = ("host", "file")
    lines = fitted(console, COLUMNS, ROWS, numbers={"size"}, wrapped="file", above=above, give_up=give_up, boxed=boxed)
    return [line.plain for line in lines]


@pytest.mark.parametrize("width", [10, 40, 60, 70, 80, 120])
@pytest.mark.parametrize("boxed", [False, True])
def test_nothing_is_cut_at_any_width(width, boxed):
    lines = shown(width, boxed=boxed)
    for cell in ("web1.example.net", "shipping", "1,234,567"):
        assert any(cell in line for line in lines)
    assert "…" not in "".join(lines)


def test_the_wrapped_column_gets_the_room_that_is_left():
    assert PATH in shown(120)[1]
    lines = shown(80)
    assert max(map(len, lines)) <= 80
    assert any(PATH[:LEAST_WIDTH] in line for line in lines)


def test_a_path_has_a_line_of_its_own_where_it_would_be_narrow_and_is_reported_once():
    lines = shown(60)
    assert lines[0] == "host  file"
    assert [line for line in lines if PATH in line] == [f"web1.example.net  {PATH}"]
    assert sum("1,234,567" in line for line in lines) == 2


def test_columns_go_in_the_order_of_their_list():
    header = shown(60, give_up=("size", "state", STACK))[0].split()
    assert header == ["host", "file", "state"]


@pytest.mark.parametrize("width", [60, 80, 400])
def test_no_line_ends_in_blanks(width):
    assert [line for line in shown(width) if line != line.rstrip()] == []
