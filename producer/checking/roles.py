"""`fshipper validate --role`: what a machine's other roles need. The program of the role is asked, never imported."""

import enum
import os
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path

from producer.checking.finding import Finding, good, wrong
from shipper.errors import ShipperError
from shipper.settings import Settings

GROUP = "fshipper.checks"


class Role(enum.StrEnum):
    """Whose settings are meant."""

    HOST = "host"
    COLLECTOR = "collector"
    PARTITIONER = "partitioner"
    REPORT = "report"


def directories(role: Role, settings: Settings, environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """What `role` writes, by the name of the check. What a report writes is named by its variable only."""
    if role is Role.COLLECTOR:
        yield "archive", settings.collector.directory
        if settings.collector.state is not None:
            yield "state", settings.collector.state
    if role is Role.REPORT:
        yield "report", Path(environment.get("SHIPPER_REPORT", "report"))


def readable_archive(role: Role, environment: Mapping[str, str]) -> Iterator[Finding]:
    """A report needs an archive that it can read."""
    if role is not Role.REPORT:
        return
    named = environment.get("SHIPPER_DIRECTORY", "")
    if not named:
        yield wrong("archive", "no archive is named", "set SHIPPER_DIRECTORY, the collector's directory")
    elif not os.access(named, os.R_OK | os.X_OK) or not Path(named).is_dir():
        yield wrong("archive", f"{named} is no directory that can be read", "correct SHIPPER_DIRECTORY or permissions")
    else:
        yield good("archive", f"{named} can be read")


def program(role: Role, settings: Settings) -> Iterator[Finding]:
    """What the role's own program says."""
    for entry in entry_points(group=GROUP, name=role.value):
        try:
            yield from (good(role.value, text) for text in entry.load()(settings))
        except ShipperError as error:
            yield wrong(role.value, str(error), error.hint)
