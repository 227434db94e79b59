"""The states of a file: the table has no dead end, it is enforced, and docs/development/tailer.md draws it."""

import re
from pathlib import Path

import pytest

from producer.checkpoint.store import Checkpoints
from producer.discovery.scanner import Seen, Watched
from producer.options import Following
from producer.tailer.file_table import TRANSITIONS, Event, FileState, FileTable
from producer.tailer.retained_files import RetainedFiles
from producer.transform.edits import NO_EDITS

PAGE = (Path(__file__).resolve().parents[2] / "docs/development/tailer.md").read_text(encoding="utf-8")
FIRST = {FileState.UNOPENED, FileState.WAITING}


def drawn(page: str) -> dict[tuple[FileState, Event], FileState]:
    """The transitions of the diagram; one from a box is one from each state in it."""
    diagram = re.findall(r"```mermaid\n(.*?)```", page, re.DOTALL)[0]
    bodies = re.findall(r"state (\w+) \{(.*?)\}", diagram, re.DOTALL)
    boxes = {name: set(re.findall(r"\w+", body)) for name, body in bodies}
    found = {}
    for source, target, event in re.findall(r"(\w+) --> (\w+): ([\w ]+)", diagram):
        for state in FileState:
            if state.value == source or state.value in boxes.get(source, ()):
                found[state, Event(event)] = FileState(target)
    return found


def test_the_diagram_is_the_table() -> None:
    assert drawn(PAGE) == TRANSITIONS


def test_the_page_names_each_state_once() -> None:
    assert re.findall(r"^\| `(\w+)` \| [A-Z]", PAGE, re.MULTILINE)[: len(FileState)] == [
        each.value for each in FileState
    ]


def reached(first: set[FileState], steps: set[tuple[FileState, FileState]]) -> set[FileState]:
    found = set(first)
    while more := {after for before, after in steps if before in found} - found:
        found |= more
    return found


def test_every_state_can_be_reached_and_left_for_good_and_every_event_happens() -> None:
    steps = {(before, after) for (before, _), after in TRANSITIONS.items()}
    assert reached(FIRST, steps) == set(FileState)
    assert reached({FileState.FORGOTTEN}, {(after, before) for before, after in steps}) == set(FileState)
    assert {event for _, event in TRANSITIONS} == set(Event)
    assert not [before for before, _ in steps if before is FileState.FORGOTTEN]


@pytest.mark.parametrize("event", list(Event), ids=lambda event: event.value)
def test_an_event_that_the_table_does_not_have_raises_and_changes_nothing(event: Event, tmp_path: Path) -> None:
    following = Following(watched=Watched.of([]), cut=NO_EDITS.cut(4096, line_a_piece=False))
    table = FileTable(following, Checkpoints(tmp_path / "checkpoint.sqlite"), RetainedFiles())
    file = table.add_new(Seen("/logs/app.log", 1, 2, 3, 4), "/logs/app.log")
    after = TRANSITIONS.get((FileState.UNOPENED, event))
    if after is not None:
        table.move(file, event)
        assert file.state is after
        assert table.waits_for_open((1, 2)) is (after is FileState.UNOPENED)
        return
    with pytest.raises(RuntimeError, match=f"unopened cannot have: {event.value}"):
        table.move(file, event)
    assert file.state is FileState.UNOPENED
    assert table.in_state(FileState.UNOPENED) == [file]
