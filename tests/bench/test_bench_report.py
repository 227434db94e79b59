"""What a GB, a file and any day of a report cost is found again in what the programs took."""

from pathlib import Path

import pytest
import sealed
from cases import report
from cases.report_days import GB, Measured, Size, Took
from programs import Used

A_GB, A_FILE, START, BESIDE = 30.0, 0.002, 3.0, 9.0


def of(cpu_s: float) -> Used:
    return Used(seconds=cpu_s / 2, cpu_s=cpu_s, peak_mib=500.0)


def day(size: Size) -> Measured:
    gb = size.most_bytes / GB
    archive = sealed.Archive(Path("/"), lines=8, size=size.most_bytes, files=size.files)
    return Measured(archive, of(START + BESIDE + A_FILE * size.files + A_GB * gb), of(1.0 + 20.0 * gb))


@pytest.fixture
def found() -> dict[tuple[str, str], float]:
    sizes = [Size(int(gb * GB), files) for files in report.FILES for gb in (0.125, 0.5, 1.0)]
    took = Took(first=of(40.0), small=of(10.0), start=of(START), days={size: day(size) for size in sizes})
    return {reading.key: reading.value for reading in report.readings(took)}


def test_the_time_of_any_day_is_the_rest_after_the_start_and_the_files(found):
    assert found["fshipper report", report.BESIDE] == pytest.approx(BESIDE)
    assert found["fshipper report", report.A_FILE] == pytest.approx(1000 * A_FILE)
    assert found["fshipper report", report.START] == START


@pytest.mark.parametrize("files", report.FILES)
def test_a_gb_is_compared_with_duckdbs(found, files):
    assert found[f"fshipper report, {files} files", report.SLOPE] == pytest.approx(A_GB)
    assert found[f"fshipper report, {files} files", report.OVER] == pytest.approx(1.5)


def test_each_line_of_the_case_is_of_a_reading(found):
    assert {(line.of, line.what) for line in report.LINES} <= set(found)
