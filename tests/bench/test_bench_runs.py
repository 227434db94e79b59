"""The benchmark itself runs: real programs, a tiny source, figures that mean nothing and are all there."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench" / "bench.py"
JUDGED = {
    0,
    1,
    75,
}  # all lines hold, one does not, others use the machine: with a tiny source none of them means anything


def bench(*arguments, directory):
    return subprocess.run(
        [sys.executable, str(BENCH), *arguments, "--anyway", "--json", "--directory", str(directory)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_case_of_each_kind_shows_its_figures_and_its_limit(tmp_path):
    cases = ("end-to-end", "producer", "collector")
    chosen = [word for case in cases for word in ("--only", case)]
    done = bench(*chosen, "--mb", "4", "--runs", "1", directory=tmp_path)
    assert done.returncode in JUDGED, done.stderr
    told = json.loads(done.stdout)
    assert [case["name"] for case in told["cases"]] == list(cases)
    for case in told["cases"]:
        assert all(figure["median"] > 0 for figure in case["figures"] if figure["unit"] == "MB/s"), case
        assert {figure["unit"] for figure in case["figures"]} == {"MB/s", "CPU s/GiB", "MiB", "%"}
        assert all(line["value"] is not None for line in case["lines"]), case
    assert list(tmp_path.iterdir()) == [], "what was made is removed"


def test_an_unknown_case_is_refused_with_the_names_of_all(tmp_path):
    done = bench("--only", "warp", directory=tmp_path)
    assert done.returncode == 2
    assert "'end-to-end'" in done.stderr
    assert "'catching-up'" in done.stderr
