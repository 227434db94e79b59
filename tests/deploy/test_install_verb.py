"""`fshipper install`: prints what it would do, does it once, and never touches files that an operator changed."""

import json
import os
import pty
import subprocess

import pytest
from harness import forking

from deploy.install.plan import digest

UNIT = "etc/systemd/system/fshipper-collector.service"
SETTINGS = "etc/fshipper/collector.toml"


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return root


def install(root, *options, role="collector", ask=None):
    """The verb as a process, without a terminal."""
    arguments = ["install", "--role", role, "--root", str(root), *options]
    return forking.run(arguments, env=dict(os.environ), within=60, stdin=ask or subprocess.DEVNULL)


def done(root, *options, role="collector"):
    """What became of each file, by its path."""
    ended = install(root, "--yes", "--json", *options, role=role)
    assert ended.returncode == 0, ended.stderr
    return {file["path"].lstrip("/"): file["do"] for file in json.loads(ended.stdout)["files"]}


def files(root):
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_dry_run_shows_every_file_and_writes_none(root):
    ended = install(root, "--dry-run")
    assert ended.returncode == 0
    assert f"+ write   /{UNIT}" in ended.stdout
    assert "systemctl enable --now fshipper-collector.service" in ended.stdout
    assert files(root) == {}


def test_without_a_terminal_to_confirm_nothing_is_done(root):
    ended = install(root)
    assert ended.returncode == 64
    assert f"/{UNIT}" in ended.stderr
    assert "give --yes" in ended.stderr
    assert files(root) == {}


@pytest.mark.parametrize(("answer", "written"), [("y\n", True), ("n\n", False)])
def test_a_person_confirms_after_seeing_the_plan(root, answer, written):
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer.encode())
        ended = install(root, ask=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert ended.stderr.index(f"/{UNIT}") < (ended.stderr + ended.stdout).index("Do it?")
    assert (UNIT in files(root)) is written


@pytest.mark.parametrize("role", ["host", "collector", "partitioner", "report", "server"])
def test_a_second_time_there_is_nothing_to_do(root, role):
    assert set(done(root, role=role).values()) == {"write"}
    first = files(root)
    assert set(done(root, role=role).values()) == {"leave"}
    assert files(root) == first
    ended = install(root, "--yes", role=role)
    assert ended.stdout.startswith("nothing to do:")


def test_configuration_is_for_root_and_the_programs_only(root):
    done(root)
    assert (root / SETTINGS).stat().st_mode & 0o777 == 0o640
    assert (root / UNIT).stat().st_mode & 0o777 == 0o644
    assert (root / "etc/fshipper").stat().st_mode & 0o777 == 0o751


def test_files_that_an_operator_changed_are_left_alone_without_the_option(root):
    done(root)
    (root / SETTINGS).write_text("mine = 1\n")
    assert done(root)[SETTINGS] == "leave"
    assert (root / SETTINGS).read_text() == "mine = 1\n"
    assert done(root, "--overwrite")[SETTINGS] == "replace"
    assert "[collector]" in (root / SETTINGS).read_text()
    assert (root / f"{SETTINGS}.old").read_text() == "mine = 1\n"


def test_a_newer_version_replaces_unchanged_files(root):
    done(root)
    record = root / "etc/fshipper/.installed.json"
    older = (root / UNIT).read_bytes() + b"# an older version\n"
    (root / UNIT).write_bytes(older)
    noted = json.loads(record.read_text())
    noted["roles"]["collector"][UNIT] = digest(older)
    record.write_text(json.dumps(noted))
    assert done(root)[UNIT] == "replace"
    assert (root / UNIT).read_bytes() != older


def test_uninstalling_takes_back_everything_but_what_changed(root):
    done(root)
    (root / SETTINGS).write_text("mine = 1\n")
    state = root / "var/lib/fshipper/archive/live"
    state.mkdir(parents=True)
    (state / "a.log").write_text("x")
    shown = done(root, "--uninstall")
    assert (shown[UNIT], shown[SETTINGS]) == ("remove", "leave")
    assert set(files(root)) == {SETTINGS, "var/lib/fshipper/archive/live/a.log"}
    assert done(root, "--uninstall", "--purge")[SETTINGS] == "remove"
    assert set(files(root)) == {"var/lib/fshipper/archive/live/a.log"}


def test_what_two_roles_share_goes_with_the_last(root):
    done(root)
    done(root, role="host")
    shared = "etc/sysusers.d/fshipper.conf"
    assert done(root, "--uninstall")[shared] == "leave"
    assert done(root, "--uninstall", role="host")[shared] == "remove"
    assert files(root) == {}


def test_files_of_a_package_are_not_written_again(root):
    packaged = root / "usr/lib/systemd/system/fshipper-collector.service"
    packaged.parent.mkdir(parents=True)
    packaged.write_text("[Service]\n")
    assert done(root)[UNIT] == "leave"
    assert not (root / UNIT).exists()


def test_units_find_the_program_that_wrote_them(root):
    done(root, "--bin-dir", "/srv/tools/fshipper/bin")
    assert "Environment=PATH=/srv/tools/fshipper/bin:/usr/local/sbin:" in (root / UNIT).read_text()


def test_a_place_that_services_do_not_see_is_warned_of(root):
    ended = install(root, "--dry-run", "--json", "--bin-dir", "/root/venv/bin")
    assert "hidden from services" in json.loads(ended.stdout)["warnings"][0]


@pytest.mark.parametrize("options", [["--purge"], ["--uninstall", "--overwrite"], ["--root", "/nowhere"]])
def test_options_that_make_no_sense_are_usage_errors(root, options):
    ended = install(root, "--yes", *options)
    assert ended.returncode == 64
    assert ended.stderr.startswith("error: ")
    assert files(root) == {}


def test_a_missing_right_to_write_is_reported(root):
    (root / "etc").write_text("no directory")
    ended = install(root, "--yes")
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
