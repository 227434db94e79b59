"""The file of classes that Java starts from: sound or not used, and made by one at a time."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_analytics.runtime import class_data_sharing, session


@pytest.fixture
def known(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "installation"))
    if not shutil.which("java"):
        pytest.skip("needs java: apt-get install openjdk-17-jre-headless")
    return class_data_sharing.archive_for(session.require_runtime(), "4.3.0", {"SHIPPER_STATE": str(tmp_path)})


def run_java(known, options) -> None:
    subprocess.run([known.java, *options, "-version"], check=True, capture_output=True)


@pytest.fixture
def made(known):
    with known.create() as options:
        run_java(known, options)
    return known


def test_a_file_that_java_wrote_is_used_from_then_on(made):
    assert made.is_valid
    run_java(made, made.options())
    assert [path.suffix for path in made.path.parent.iterdir() if path.suffix == ".new"] == []


def test_a_torn_file_is_not_used_and_made_again(made):
    whole = made.path.read_bytes()
    made.path.write_bytes(whole[: len(whole) // 2])
    assert not made.is_valid

    with made.create() as options:
        run_java(made, options)

    assert made.is_valid


def test_a_file_that_was_not_tried_is_not_used(made):
    made.path.with_suffix(".json").unlink()
    assert not made.is_valid


def test_two_in_parallel_make_one(known):
    with known.create() as one, known.create() as other:
        assert other == []
        run_java(known, one)
    assert known.is_valid


def test_what_java_did_not_write_leaves_none_and_fails_nothing(known):
    with known.create():
        pass
    assert not known.is_valid


def test_a_directory_that_cannot_be_made_fails_nothing(known, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    elsewhere = class_data_sharing.SharedArchive(known.java, tmp_path / "file" / "java" / "x.jsa")
    with elsewhere.create() as options:
        assert options == []


def test_versions_of_java_and_spark_and_directories_of_spark_have_files_of_their_own(known, tmp_path):
    other = class_data_sharing.archive_for(known.java, "4.4.0", {"SHIPPER_STATE": str(tmp_path)})
    assert other.path != known.path
    moved = {"SHIPPER_STATE": str(tmp_path), "SPARK_HOME": str(tmp_path / "copy")}
    assert class_data_sharing.archive_for(known.java, "4.3.0", moved).path != known.path
    cached = class_data_sharing.archive_for(known.java, "4.3.0", {"XDG_CACHE_HOME": str(tmp_path), "HOME": "/root"})
    assert Path(tmp_path, "fshipper") in cached.path.parents


def prepared_at(known, tmp_path):
    return class_data_sharing.archive_to_prepare(known.java, "4.3.0", {"SHIPPER_STATE": str(tmp_path)})


def test_an_archive_of_the_installation_is_used_before_that_of_the_state_directory(made, tmp_path):
    of_installation = prepared_at(made, tmp_path)
    with of_installation.create() as options:
        run_java(made, options)

    assert tmp_path / "installation" in of_installation.path.parents
    found = class_data_sharing.archive_for(made.java, "4.3.0", {"SHIPPER_STATE": str(tmp_path)})
    assert found.path == of_installation.path
    assert found.path.stat().st_mode & 0o777 == 0o644
    assert found.path.stat().st_mtime_ns % 10**9 == 0  # a layer of an image keeps whole seconds


def test_the_state_directory_is_prepared_if_the_installation_cannot_be_written(known, tmp_path):
    (tmp_path / "installation").write_bytes(b"")
    assert prepared_at(known, tmp_path).path == known.path
