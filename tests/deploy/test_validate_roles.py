"""`fshipper validate --role`: what a unit checks before it starts its program, and the results."""

import json

import pytest
from harness import forking

from spark_analytics.archive import inventory


def validate(tmp_path, *options, **environment):
    """The exit code, and what is wrong by the name of the check."""
    given = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)} | environment
    ended = forking.run(["validate", "--json", *options], env=given, within=60, cwd=tmp_path)
    try:
        checks = json.loads(ended.stdout)["checks"]
    except ValueError:
        return ended.returncode, {"error": ended.stderr}
    return ended.returncode, {check["check"]: check["text"] for check in checks if check["sign"] == "wrong"}


def test_a_collector_that_can_work_passes(tmp_path):
    assert validate(tmp_path, "--role", "collector", SHIPPER_DIRECTORY=str(tmp_path / "archive")) == (0, {})
    assert not (tmp_path / "archive").exists(), "nothing is made"


@pytest.mark.parametrize(
    ("content", "check", "text"),
    [
        ('directory = "/dev/null/archive"', "archive", "/dev/null is no directory"),
        ('store = "frames"\ncodec = "none"', "collector", "collector.store is frames, and collector.codec is none"),
        ('output = "../{host}"', "collector", "SHIPPER_OUTPUT"),
        ("keep_dys = 3", "settings", "did you mean collector.keep_days?"),
    ],
)
def test_a_collector_that_cannot_work_gets_the_reason(tmp_path, content, check, text):
    settings = tmp_path / "collector.toml"
    settings.write_text(f"[collector]\n{content}\n")
    code, wrong = validate(tmp_path, "--role", "collector", "--config", str(settings))
    assert code == 78
    assert text in wrong[check]


def test_a_host_needs_files_and_a_partitioner_none(tmp_path):
    code, wrong = validate(tmp_path, "--role", "host")
    assert (code, wrong["files"]) == (78, "no file to ship")
    assert validate(tmp_path, "--role", "partitioner") == (0, {})


def test_secrets_that_cannot_be_read_are_wrong_for_everybody(tmp_path):
    for role in ("collector", "partitioner", "report"):
        code, wrong = validate(tmp_path, "--role", role, NATS_CREDS=str(tmp_path / "none.creds"))
        assert code == 78
        assert "nats.creds" in wrong


def test_a_report_needs_an_archive_and_java(tmp_path):
    code, wrong = validate(tmp_path, "--role", "report", JAVA_HOME=str(tmp_path))
    assert code == 78
    assert set(wrong) == {"archive", "report"}
    assert "Java" in wrong["report"]


def test_a_page_that_searches_needs_an_archive_and_names_its_hosts(tmp_path):
    code, wrong = validate(tmp_path, "--role", "browse", SHIPPER_DIRECTORY=str(tmp_path))
    assert (code, set(wrong)) == (78, {"browse"})
    assert "there is no archive" in wrong["browse"]
    (tmp_path / "_manifest").mkdir()
    assert validate(tmp_path, "--role", "browse", SHIPPER_DIRECTORY=str(tmp_path)) == (0, {})
    (tmp_path / "browse.toml").write_text('[browse]\nallowed_hosts = ["*"]\n')
    named = ("--config", str(tmp_path / "browse.toml"))
    code, wrong = validate(tmp_path, "--role", "browse", *named, SHIPPER_DIRECTORY=str(tmp_path))
    assert code == 78
    assert "every name" in wrong["browse"]


def test_the_server_is_queried_with_the_rights_of_a_host_or_a_collector_only(tmp_path):
    code, wrong = validate(tmp_path, "--role", "browse", "--connect")
    assert code == 64
    assert "--connect" in wrong["error"]


def test_a_day_without_a_manifest_yet_holds_up_no_other_day(tmp_path):
    """The nightly service requests every existing day: one that cannot be reported would end it each night."""
    days = tmp_path / "_manifest"
    (days / "date=2026-11-18").mkdir(parents=True)
    (days / "date=2026-11-19").mkdir()
    (days / "date=2026-11-19" / "c1.jsonl").write_text("")
    assert inventory.days(tmp_path) == ["2026-11-19"]
