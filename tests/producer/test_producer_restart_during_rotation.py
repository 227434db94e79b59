"""A rotation in the very moment in which a restarted producer finds its file again."""

from pathlib import Path

import pytest
from producing import Host, append, rotate

from producer.discovery import scanner


def test_a_rotation_between_finding_a_known_file_and_opening_it_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"one\n" * 100)
    host = Host(tmp_path, "app.log")
    host.ship()
    host.kill()
    append(path, b"late\n")
    rotate(path)
    path.write_bytes(b"next\n")
    find = scanner.Listing.find_inode

    def found_and_rotated(listing: scanner.Listing, directory: str, key: tuple[int, int]) -> str | None:
        found = find(listing, directory, key)
        monkeypatch.setattr(scanner.Listing, "find_inode", find)
        rotate(path)
        path.write_bytes(b"newest\n")
        return found

    monkeypatch.setattr(scanner.Listing, "find_inode", found_and_rotated)
    host.start()
    for _ in range(3):
        host.ship()
    assert host.archive.text(path) == b"one\n" * 100 + b"late\n" + b"next\n" + b"newest\n"
    assert not host.archive.gaps
