"""Rotations that people know, one row each: every line arrives once, the older generation before the younger one.

A row is a program for the driver of `test_model_of_a_file.py`, whose `World` checks each byte. `look` is the next scan,
or a kill and the next start. Regressions that need more than these steps are tests of their own, next to this file.
"""

import pytest
from test_model_of_a_file import run

from producer.options import UNBOUNDED

SCENARIOS = {
    "it is rotated after it was read": "write 40, work, write 30, rotate, write 20, look",
    "it is rotated before it was read": "write 40, rotate, write 20, look",
    "it is rotated while it is half read": "write 300, write 300, read 10, rotate, write 20, look, read 10",
    "its name is free for a while": "write 40, work, write 30, rotate, look, work, write 20, look",
    "the old generation takes many reads": "write 300, write 300, rotate, write 20, look, read 10, read 10, read 10",
    "four generations come and go": "write 40, work, write 9, rotate, write 30, rotate, write 31, rotate, look",
    "it is rotated much faster than it is looked at": ", ".join([*["write 30, rotate"] * 30, "look", "work"] * 2),
    "generations come and go again": "write 40, work, pause 40, look, work, pause 41, look, work, pause 42, look",
    "it goes on after it was renamed": "write 40, work, rotate, write 20, look, write_late 30, look",
    "rotated files get a date": "write 40, work, rotate, write 30, look, redate 0, write 20, rotate, redate 1, look",
    "it has a second name": "write 40, link 1, look, work, write 30, rotate, write 20, look, link 2, rotate, look",
    "it is compressed immediately": "write 300, read 10, write 30, rotate_gz, write 20, look",
    "compressed generations come and go": "write 90, work, rotate_gz, write 80, rotate_gz, write 70, rotate_gz, look",
    "each generation is compressed": "write 90, work, write 9, rotate_gz, write 80, look, work, rotate_gz, look",
    "it is compressed a rotation later": "write 90, work, rotate, write 80, look, work, compress, rotate, look",
    "renamed and compressed in one step": "write 90, rotate, write 300, scan, read 5, compress, rotate, write 9, look",
    "acknowledgements are lost": "write 300, read 10, lose_session 40, rotate, write 30, look, read 2, lose_session 20",
    "the server loses its newest blocks": "write 300, work, rotate, write 30, look, work, lose_power 40, look",
}
EACH = ("app.log", "app.log*")


@pytest.fixture(autouse=True)
def checkpoint_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("producer.checkpoint.store._SYNC", "OFF")


@pytest.mark.parametrize("open_files", [UNBOUNDED, 1])
@pytest.mark.parametrize("pattern", EACH)
@pytest.mark.parametrize("look", ["scan", "kill"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_line_of_every_generation_arrives_once_in_order(
    scenario: str, look: str, pattern: str, open_files: int
) -> None:
    steps = [step.replace("look", look).split() for step in SCENARIOS[scenario].split(", ")]
    world = run([(verb, int(number[0]) if number else 0) for verb, *number in steps], pattern, open_files)
    assert world.rotations
    assert set(world.host.archive.files.values()) == {str(world.path)}
    assert world.kills == (look == "kill") * SCENARIOS[scenario].count("look")
