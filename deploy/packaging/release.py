#!/usr/bin/env python3
"""Make a release: the version in `pyproject.toml`, a section of the changelog, one commit and one tag. No push.

    deploy/packaging/release.py VERSION             on a clean checkout, after `make check`
    deploy/packaging/release.py VERSION --dry-run   print what would change

Standard library only: it runs before anything is installed.
"""

import datetime as dt
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

EXIT_USAGE = 64
_VERSION = re.compile(r"\d+\.\d+\.\d+(rc\d+)?")
_PROJECT_VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
_UNRELEASED = "## Unreleased\n"
_NEXT_SECTION = re.compile(r"^## ", re.MULTILINE)


class ReleaseError(Exception):
    """The release cannot be made; the text has the reason and the next step."""


class Release(NamedTuple):
    """The new text of both files."""

    project: str
    changelog: str


def prepared(project: str, changelog: str, version: str, day: dt.date) -> Release:
    """The files of a release: the version, and the lines of "Unreleased" as a section of their own.

    Raises:
        ReleaseError: the version is malformed or not newer, or nothing was changed since the last release.
    """
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is no version: write MAJOR.MINOR.PATCH, for example 0.3.0 or 0.3.0rc1")
    found = _PROJECT_VERSION.search(project)
    if found is None:
        raise ReleaseError('pyproject.toml has no line version = "..."')
    if _order(version) <= _order(found[1]):
        raise ReleaseError(f"{version} is not newer than {found[1]}")
    before, heading, after = changelog.partition(_UNRELEASED)
    if not heading:
        raise ReleaseError('CHANGELOG.md has no section "## Unreleased"')
    following = _NEXT_SECTION.search(after)
    body = after[: following.start()] if following else after
    rest = after[following.start() :] if following else ""
    if not body.strip():
        raise ReleaseError('CHANGELOG.md has nothing below "## Unreleased": add what users will observe')
    dated = f"{before}{_UNRELEASED}\n## {version} - {day.isoformat()}\n{body}{rest}"
    return Release(project[: found.start(1)] + version + project[found.end(1) :], dated)


def _order(version: str) -> tuple[int, ...]:
    """A release candidate comes before its release."""
    numbers, _, candidate = version.partition("rc")
    return (*(int(each) for each in numbers.split(".") if each.isdigit()), int(candidate) if candidate else 1 << 30)


def release(root: Path, version: str, day: dt.date, *, is_dry: bool) -> None:
    """Write, commit and tag. Raises ReleaseError; nothing is changed then."""
    project, changelog = root / "pyproject.toml", root / "CHANGELOG.md"
    made = prepared(project.read_text(), changelog.read_text(), version, day)
    if is_dry:
        print(f"would set version {version}, date the changelog {day}, commit and tag v{version}")
        return
    if changed := _git(root, "status", "--porcelain"):
        raise ReleaseError(f"commit or remove your changes first:\n{changed}")
    if _git(root, "tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists already")
    project.write_text(made.project)
    changelog.write_text(made.changelog)
    _git(root, "commit", "--quiet", "--all", "--message", f"release: {version}")
    _git(root, "tag", "--annotate", f"v{version}", "--message", f"fshipper {version}")
    print(f"made the commit and the tag v{version}; publish with: git push --follow-tags")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


def main(arguments: list[str]) -> int:
    """The exit code."""
    versions = [each for each in arguments if each != "--dry-run"]
    if len(versions) != 1:
        print("usage: make release VERSION=0.3.0", file=sys.stderr)
        return EXIT_USAGE
    root = Path(__file__).resolve().parents[2]
    try:
        release(root, versions[0], dt.datetime.now(dt.UTC).date(), is_dry="--dry-run" in arguments)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
