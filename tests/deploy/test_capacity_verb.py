"""`fshipper capacity`: its sizes, and that its figures are those of the benchmarks page."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from harness.fleet import FSHIPPER

from deploy.capacity import figures
from deploy.capacity.sizes import GIB, Load, sizes_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "development" / "benchmarks.md").read_text()
DAY = 86_400.0
LOAD = Load(
    hosts=200,
    bytes_per_day=50 * GIB,
    retention_seconds=90 * DAY,
    outage_seconds=DAY,
    replicas=1,
    compression=12,
    peak=4,
)


def test_the_figures_are_those_of_the_benchmarks_page() -> None:
    rows = {
        "producer": (f"{figures.PRODUCER_CPU_SECONDS_PER_GIB} CPU s/GiB", f"{figures.PRODUCER_MIB} MiB"),
        "collector": (f"{figures.COLLECTOR_CPU_SECONDS_PER_GIB:.2f} CPU s/GiB",),
        "end-to-end": (f"server {figures.SERVER_CPU_SECONDS_PER_GIB:.2f}",),
        "crowd": ("9,988 blocks/s with 0.96 of a core", f"{figures.COLLECTOR_MIB} MiB"),
        "flood": (f"{figures.SERVER_MIB} MiB with large messages",),
        "report": (f"{figures.REPORT_CPU_SECONDS_PER_GB:.0f} CPU s/GB",),
        "report-large": (f"{figures.REPORT_MIB:,} MiB", f"fixed cost **{figures.REPORT_FIXED_CPU_SECONDS} CPU s"),
    }
    assert round(9988 / 0.96) == round(figures.BLOCKS_PER_SECOND_OF_A_CORE)
    assert "compresses them about twelve times" in PAGE
    for case, texts in rows.items():
        found = " ".join(re.findall(rf"^\| `{case}` \|(.*)\|$", PAGE, re.MULTILINE))
        for text in texts:
            assert text in found, (case, text)


def test_disk_follows_retention_and_compression() -> None:
    sizes = sizes_of(LOAD)
    assert sizes.archive_bytes == round((50 * GIB * 90 / 12 + 50 * GIB) / 0.8)
    assert sizes.server_bytes >= sizes.partitions * sizes.stream_bytes >= 50 * GIB


@pytest.mark.parametrize(("hosts", "collectors"), [(1, 1), (7000, 1), (10_000, 2)])
def test_a_core_writes_so_many_hosts_that_always_write(hosts: int, collectors: int) -> None:
    load = Load(
        hosts=hosts, bytes_per_day=GIB, retention_seconds=DAY, outage_seconds=DAY, replicas=1, compression=12, peak=1
    )
    assert sizes_of(load).collectors == collectors


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FSHIPPER, "capacity", *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_people_and_scripts_get_the_same() -> None:
    text = ran("--hosts", "200", "--per-day", "50GiB", "--retention", "90d")
    assert (text.returncode, text.stderr) == (0, "")
    assert text.stdout.startswith("200 hosts, 50.0 GiB of text a day")
    made = json.loads(ran("--hosts", "200", "--per-day", "50GiB", "--retention", "90d", "--json").stdout)
    assert made["sizes"]["archive_bytes"] == sizes_of(LOAD).archive_bytes
    assert f"{made['sizes']['partitions']} partitions" in text.stdout


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (("--hosts", "2", "--per-day", "much"), "--per-day: 'much' is no size"),
        (("--hosts", "2", "--per-day", "1GiB", "--retention", "long"), "--retention: 'long' is no duration"),
        (("--hosts", "200", "--per-day", "50"), "--per-day: 50 bytes a day are less than one of each host"),
    ],
)
def test_what_is_mistyped_is_named(arguments: tuple[str, ...], wrong: str) -> None:
    done = ran(*arguments)
    assert (done.returncode, wrong in done.stderr) == (64, True), done.stderr
