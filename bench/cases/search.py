"""A search through a large archive, next to `zstd -dc` and to `zstd -dc` with ripgrep over the same files."""

import json
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import search_archive
from figures import MB, Line, Reading, memory
from harness.fleet import FSHIPPER
from machine import settled
from programs import Program, Used, stage
from search_archive import SearchArchive
from suite import Case, MissingError, Place

OURS = "search"
UNPACK = "zstd -dc"
GREP = "zstd -dc and rg"
SIZE = 10_000_000_000
"""Bytes of text in the archive."""
ABSENT = "never-written-anywhere"
ANY_CASE = "absent-alpha|absent-bravo|absent-charlie"
WINDOW = ("--since", "2026-11-20T10:10:00Z", "--until", "2026-11-20T10:24:24Z")
"""One hundredth of a day."""


def run(place: Place) -> list[Reading]:
    """The same files are read by each program in turn, with one worker."""
    for tool in ("zstd", "rg"):
        if shutil.which(tool) is None:
            raise MissingError(f"{tool} is not here: apt-get install zstd ripgrep")
    text = place.source.path.read_bytes()[: 2 * SIZE // (search_archive.HOURS * search_archive.HOSTS)]
    archive = search_archive.make(place.directory / "archive", text, SIZE)
    settled()
    return [*_costs(place, archive), *_window(archive), *_newest(archive), *_ingest(place, archive)]


def _costs(place: Place, archive: SearchArchive) -> list[Reading]:
    files = place.directory / "files"
    files.write_text("".join(f"{path}\0" for path in archive.segments))
    unpack = f"xargs -0 zstd -dcq <{files}"
    unpacked = _used(place, f"{unpack} >/dev/null")
    grepped = _used(place, f"{unpack} | rg -a -c -F {ABSENT}")
    ours = _used(place, _search(archive, ABSENT))
    any_case_grepped = _used(place, f"{unpack} | rg -a -c -i {shlex.quote(ANY_CASE)}")
    any_case = _used(place, _search(archive, f"/{ANY_CASE}/i"))
    return [
        Reading(UNPACK, "text per CPU second", archive.size / unpacked.cpu_s / MB, "MB/s"),
        Reading(OURS, "text per CPU second", archive.size / ours.cpu_s / MB, "MB/s"),
        Reading(OURS, f"text per CPU second, of {UNPACK}", 100 * unpacked.cpu_s / ours.cpu_s, "%"),
        Reading(OURS, f"CPU for an absent word over {GREP}", ours.cpu_s / grepped.cpu_s, "times"),
        Reading(OURS, f"CPU for /a|b|c/i over {GREP}", any_case.cpu_s / any_case_grepped.cpu_s, "times"),
        memory(OURS, max(ours.peak_mib, any_case.peak_mib)),
    ]


def _search(archive: SearchArchive, query: str) -> str:
    return f"{FSHIPPER} search --count all --jobs 1 --archive {archive.directory} {shlex.quote(query)}"


def _used(place: Place, command: str) -> Used:
    """Of a shell command that finds nothing."""
    log = place.directory / "search.log"
    return Program(["/bin/sh", "-c", f"{command}; test $? -le 1"], os.environ, log).end()


def _window(archive: SearchArchive) -> list[Reading]:
    command = [FSHIPPER, "search", "--json", "--count", "all", *WINDOW, "--archive", archive.directory, ABSENT]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    read = json.loads(done.stdout.splitlines()[-1])["bytes_read"]
    return [Reading(OURS, "bytes read for 1 % of a day", 100 * read / archive.stored, "%")]


def _newest(archive: SearchArchive) -> list[Reading]:
    began = time.monotonic()
    command = [FSHIPPER, "search", "--newest-first", "--limit", "1", "--archive", archive.directory]
    with subprocess.Popen([*command, "needle-of-the-newest-hour"], stdout=subprocess.PIPE) as process:
        assert process.stdout
        line, found = process.stdout.readline(), time.monotonic() - began
        process.terminate()
    assert b"needle" in line
    return [Reading(OURS, "first line, newest first", found, "s")]


def _ingest(place: Place, archive: SearchArchive) -> list[Reading]:
    """A collector empties a full stream, alone and while a search with a worker for each core runs."""
    seconds, searched = {}, 0.0
    for is_searched in (False, True) if place.number % 2 else (True, False):
        with stage(place.directory / f"stage-{is_searched}") as on:
            on.produce("--once", place.source.path).end()
            settled()
            command = [FSHIPPER, "search", "--count", "all", "--archive", str(archive.directory), "NOT " + ABSENT]
            search = Program(command, os.environ, Path(place.directory / "beside.log")) if is_searched else None
            used = on.consume("--drain").end()
            seconds[is_searched] = used.seconds
            if search is not None:
                searched = 100 * search.tree_cpu_s / (os.cpu_count() or 1) / used.seconds
                search.kill()
    lost = 100 * (1 - seconds[False] / seconds[True])
    return [
        Reading("collector", "throughput lost while a search runs", lost, "%"),
        Reading("collector", "CPU of all cores that the search used", searched, "%"),
        Reading("collector", "throughput lost beyond the CPU of the search", lost - searched, "%"),
    ]


CASE = Case(
    "search",
    "what does a search through 10 GB of text cost?",
    run,
    lines=(
        Line(f"at least 70 % of {UNPACK} per CPU second", OURS, f"text per CPU second, of {UNPACK}", at_least=70.0),
        *(
            Line(f"{what}: at most 1.5 times the CPU of {GREP}", OURS, f"CPU for {what} over {GREP}", at_most=1.5)
            for what in ("an absent word", "/a|b|c/i")
        ),
        Line("a worker has at most 64 MiB", OURS, "peak memory", at_most=64.0),
        Line("1 % of a day reads at most 3 % of the bytes", OURS, "bytes read for 1 % of a day", at_most=3.0),
        Line("the first line of the newest hour within 1 s", OURS, "first line, newest first", at_most=1.0),
        Line(
            "a collector loses at most the CPU of a search, and 5 % more",
            "collector",
            "throughput lost beyond the CPU of the search",
            at_most=5.0,
        ),
    ),
    notes=("one worker, except for the first line and next to the collector; the start of the command is included",),
)
