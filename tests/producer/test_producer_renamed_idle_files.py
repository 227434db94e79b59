"""A file that rests without a descriptor is noticed to have left its name all the same."""

from pathlib import Path

import pytest
from producing import Host, rotate


@pytest.mark.parametrize("options", [{"open_files": 1}, {"open_files": 2}, {}])
@pytest.mark.parametrize("text", [b"unterminated", b"line\n"])
def test_an_unterminated_line_of_a_rotated_file_that_rests_comes_due(
    text: bytes, options: dict[str, int], tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"older")
    host = Host(tmp_path, "app.log", **options)
    rotate(path)
    path.write_bytes(text)
    host.restart()
    rotate(path)
    path.write_bytes(b"new\n")
    host.ship()
    host.let_go()
    assert host.archive.text(path) == b"older" + text + b"new\n"


def test_an_unterminated_line_of_a_file_that_rests_comes_due_when_it_is_renamed_to_an_excluded_name(
    tmp_path: Path,
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"older")
    host = Host(tmp_path, "app.log*", exclude=("*.[0-9]",), open_files=1)
    rotate(path)
    path.write_bytes(b"unterminated")
    host.restart()
    rotate(path)
    path.write_bytes(b"new\n")
    host.ship()
    host.let_go()
    assert host.archive.text(path) == b"olderunterminatednew\n"
