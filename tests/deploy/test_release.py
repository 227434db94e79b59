"""`make release`: one commit and one tag with the version and its changes; nothing where something is wrong."""

import datetime as dt
import subprocess
from pathlib import Path

import pytest

from deploy.packaging.release import ReleaseError, prepared, release

DAY = dt.date(2026, 12, 1)
PROJECT = '[project]\nname = "fshipper"\nversion = "0.2.0"\n'
CHANGELOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n- a thing\n\n## 0.2.0 - 2026-11-28\n\n- an earlier thing\n"


def test_a_release_dates_the_changes_and_leaves_an_empty_section() -> None:
    made = prepared(PROJECT, CHANGELOG, "0.3.0", DAY)
    assert 'version = "0.3.0"' in made.project
    assert made.changelog.startswith(
        "# Changelog\n\n## Unreleased\n\n## 0.3.0 - 2026-12-01\n\n### Added\n\n- a thing\n"
    )
    assert made.changelog.endswith("## 0.2.0 - 2026-11-28\n\n- an earlier thing\n")


@pytest.mark.parametrize("version", ["0.3.0", "0.3.0rc1", "0.2.1", "1.0.0", "0.10.0"])
def test_a_newer_version_is_accepted(version: str) -> None:
    assert f"## {version} - " in prepared(PROJECT, CHANGELOG, version, DAY).changelog


@pytest.mark.parametrize("version", ["0.2.0", "0.1.9", "0.2.0rc1", "v0.3.0", "0.3", "", "0.3.0 ", "latest"])
def test_another_version_is_refused(version: str) -> None:
    with pytest.raises(ReleaseError, match=r"no version|not newer"):
        prepared(PROJECT, CHANGELOG, version, DAY)


def test_a_release_without_changes_is_refused() -> None:
    with pytest.raises(ReleaseError, match="nothing below"):
        prepared(PROJECT, "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2026-11-28\n\n- x\n", "0.3.0", DAY)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the two files, committed."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.email", "a@example.net")
    git(tmp_path, "config", "user.name", "A")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def git(directory: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=directory, check=True, capture_output=True, text=True).stdout


def test_a_release_is_one_commit_with_a_tag(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release(checkout, "0.3.0", DAY, is_dry=False)
    assert git(checkout, "log", "--format=%s", "-1") == "release: 0.3.0\n"
    assert git(checkout, "tag", "--points-at", "HEAD") == "v0.3.0\n"
    assert git(checkout, "status", "--porcelain") == ""
    assert "git push --follow-tags" in capsys.readouterr().out


def test_uncommitted_changes_stop_a_release(checkout: Path) -> None:
    (checkout / "notes").write_text("x")
    with pytest.raises(ReleaseError, match=r"commit or remove.*\n.*notes"):
        release(checkout, "0.3.0", DAY, is_dry=False)
    assert git(checkout, "log", "--format=%s") == "first\n"


def test_a_tag_is_never_made_twice(checkout: Path) -> None:
    git(checkout, "tag", "v0.3.0")
    with pytest.raises(ReleaseError, match="exists already"):
        release(checkout, "0.3.0", DAY, is_dry=False)
    assert (checkout / "pyproject.toml").read_text() == PROJECT


def test_a_dry_run_changes_nothing(checkout: Path) -> None:
    release(checkout, "0.3.0", DAY, is_dry=True)
    assert git(checkout, "status", "--porcelain") == ""
    assert git(checkout, "tag") == ""
