"""How Java is started for a day of a given size."""

import shlex
import subprocess

import pytest

from spark_analytics import paces, session

FIRST, BOTH_LESS_THE_LOOP, BOTH = ("1", False), ("4", True), ("4", False)
"""What compiles: `TieredStopAtLevel`, and whether Java was told to leave something out."""


@pytest.mark.parametrize(
    ("size_bytes", "compilers"),
    [
        (paces.SMALL_BYTES, FIRST),
        (paces.MIDDLING_BYTES, FIRST),
        (paces.MIDDLING_BYTES + 1, BOTH_LESS_THE_LOOP),
        (paces.LARGE_BYTES, BOTH_LESS_THE_LOOP),
        (paces.LARGE_BYTES + 1, BOTH),
        (None, BOTH),
    ],
)
def test_java_knows_its_options_and_the_larger_the_day_the_more_it_compiles(size_bytes, compilers):
    started = java(size_bytes, "-XX:+PrintFlagsFinal")

    said = started.stdout + started.stderr
    level = next(line.split()[3] for line in said.splitlines() if " TieredStopAtLevel " in line)
    assert (level, "compiler directives added" in said) == compilers


def test_what_java_says_of_its_compilers_stays_out_of_the_summary():
    assert java(paces.LARGE_BYTES).stdout == ""


def java(size_bytes: int | None, *more: str) -> subprocess.CompletedProcess[str]:
    options, _ = paces.paced(size_bytes)
    command = [session.require_runtime(), *shlex.split(" ".join(options)), *more, "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
