"""A check that found nothing to check is never green: empty, foreign and unknown places are distinguished and named."""

import json
import shutil
from pathlib import Path

import pytest
from auditing import LINES, Audited, audit, command
from collecting import HOST, Log

from consumer.archive import parts
from consumer.archive.directory import open_archive
from consumer.model import Until
from shipper.errors import ConfigError
from spark_analytics.archive import inventory

DAY = "2026-11-20"


def foreign(directory: Path, kind: str) -> Path:
    """A directory that a person may take for an archive."""
    place = directory / kind
    match kind:
        case "nowhere":
            return place
        case "a file":
            place.write_text("text")
            return place
        case "empty":
            place.mkdir()
        case "a checkout":
            (place / ".git").mkdir(parents=True)
            (place / "archive").mkdir()
        case "tables of a report":
            (place / f"date={DAY}").mkdir(parents=True)
            (place / f"date={DAY}/part-0.parquet").write_text("PAR1")
        case "etc":
            place = Path("/etc")
    return place


PLACES = ("nowhere", "a file", "empty", "a checkout", "tables of a report", "etc")
VERBS = {
    "audit": ("audit", "{place}"),
    "redact": ("redact", "{place}", "--host", "web1", "--match", "x", "--yes"),
    "tail": ("tail", "--from", "archive", "--archive", "{place}"),
    "replay": ("replay", "--from", "archive", "--archive", "{place}"),
    "report": ("report", "--archive", "{place}", "--date", DAY, "--out", "{out}"),
    "report --since": ("report", "--archive", "{place}", "--since", DAY, "--out", "{out}"),
    "report compact": ("report", "compact", "--archive", "{place}", "--date", DAY, "--out", "{out}"),
    "report query": ("report", "query", "SELECT 1", "--archive", "{place}", "--date", DAY, "--out", "{out}"),
}


@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("verb", VERBS)
def test_what_is_no_archive_is_wrong_configuration_and_is_named(tmp_path: Path, verb: str, kind: str) -> None:
    place = foreign(tmp_path, kind)
    code, out, errors = command(*(word.format(place=place, out=tmp_path / "out") for word in VERBS[verb]))
    assert (code, out) == (78, "")
    assert str(place) in errors
    assert "archive" in errors
    assert "SHIPPER_DIRECTORY" in errors or "--archive " in errors
    assert not (tmp_path / "out").exists()


def test_an_archive_without_a_line_proves_nothing(tmp_path: Path) -> None:
    open_archive(tmp_path)
    result = audit(str(tmp_path))
    assert (result.code, result.kinds, result.found["complete"]) == (2, ["nothing_archived"], False)
    code, out, _ = command("audit", tmp_path)
    assert code == 2
    assert f"nothing is archived yet in {tmp_path}" in out
    assert "NOT COMPLETE; 0 hosts, 0 files" in out
    for verb in ("tail", "replay"):
        code, _, errors = command(verb, "--from", "archive", "--archive", tmp_path)
        assert (code, f"nothing is archived yet in {tmp_path}" in errors) == (69, True)
    code, _, errors = command("redact", tmp_path, "--host", "web1", "--match", "x", "--yes")
    assert (code, "so nothing is redacted" in errors) == (69, True)
    code, _, errors = command("report", "--archive", tmp_path, "--date", DAY)
    assert (code, f"nothing is sealed for {DAY}" in errors) == (69, True)  # it is one, and that day has nothing


async def test_an_archive_of_an_older_version_has_no_identity(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    archive.send(Log(LINES), 0, len(LINES))
    await archive.drain(Until.SEALED)
    (archive.archive / "_archive.json").unlink()
    assert archive.audit().code == 0
    inventory.check_archive(archive.archive)
    assert parts.is_archive(archive.archive)
    assert not parts.is_empty(archive.archive)
    shutil.rmtree(archive.archive / "_journal")
    shutil.rmtree(archive.archive / "_manifest")  # only the days were copied: what they hold is listed nowhere
    assert archive.audit().code == 2
    with pytest.raises(ConfigError, match="no archive of a collector"):
        inventory.check_archive(archive.archive)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--date", "2020-01-01"), 69, "nothing of these days"),
        (("--since", "2999-01-01"), 69, "nothing of these days"),
        (("--since", "2026-02-01", "--until", "2026-01-01"), 64, "exchange them"),
        (("--date", "2026-1-32"), 64, "is no day"),
        (("--date", "2026-01-01", "--until", "2026-01-01"), 64, "--date goes without"),
    ],
)
@pytest.mark.parametrize("verb", ["audit", "redact"])
async def test_days_that_name_nothing_are_reported(tmp_path: Path, verb: str, arguments, code: int, text: str) -> None:
    archive = Audited(tmp_path)
    archive.send(Log(LINES), 0, len(LINES))
    await archive.drain(Until.SEALED)
    before = archive.segment.read_bytes()
    more = ("--host", HOST, "--match", "line", "--yes") if verb == "redact" else ()
    found = command(verb, archive.archive, *more, *arguments)
    assert (found[0], text in found[2], found[1]) == (code, True, "")
    assert archive.segment.read_bytes() == before


async def test_a_host_or_file_that_the_archive_lacks_is_reported(tmp_path: Path) -> None:
    archive = Audited(tmp_path)
    archive.send(Log(LINES), 0, len(LINES))
    await archive.drain(Until.SEALED)
    code, _, errors = command("audit", archive.archive, "--host", "wbe*")
    assert (code, "has nothing of wbe*" in errors) == (69, True)
    mistyped = ("--host", f"{HOST}x", "--match", "line", "--yes")
    code, _, errors = command("redact", archive.archive, *mistyped)
    assert (code, f"has nothing of {HOST}x on 1 day" in errors) == (69, True)
    code, _, errors = command(
        "redact", archive.archive, "--host", HOST, "--file", "/nosuch", "--match", "line", "--yes"
    )
    assert (code, "has no file /nosuch of" in errors) == (0, True)


def test_a_report_of_days_in_the_wrong_order_is_wrong_usage(tmp_path: Path) -> None:
    open_archive(tmp_path)
    code, _, errors = command("report", "--archive", tmp_path, "--since", "2026-02-01", "--until", "2026-01-01")
    assert (code, "exchange them" in errors) == (64, True)


def test_the_json_of_an_empty_archive_has_the_same_fields(tmp_path: Path) -> None:
    open_archive(tmp_path)
    found = json.loads(command("audit", tmp_path, "--json")[1])
    assert found["totals"]["archived"] == {"bytes": 0, "lines": 0}
    assert [each["weight"] for each in found["findings"]] == ["gap"]
