"""`make mutants`: plant each defect of `tests/defects.toml` in a copy of the code, and run the tests that must find it.

Prints one line a defect. Ends with 1 where one survives, and with 2 where the code of a defect is no longer there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("consumer", "producer", "partitioner", "shipper", "spark_analytics", "deploy", "docs", "tests")
TIMEOUT_SECONDS = 600


def main(wanted: list[str]) -> int:
    defects = tomllib.loads((ROOT / "tests/defects.toml").read_text())["defect"]
    chosen = [defect for defect in defects if not wanted or any(word in defect["name"] for word in wanted)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        codes = [_judge(defect, Path(directory) / str(number)) for number, defect in enumerate(chosen)]
    print(f"{codes.count(0)} of {len(codes)} defects are found")
    return max(codes, default=0)


def _judge(defect: dict, copy: Path) -> int:
    """0: found; 1: it survives; 2: its code is gone."""
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile"):
        shutil.copy(ROOT / name, copy / name)
    file = copy / defect["file"]
    text = file.read_text()
    if text.count(defect["old"]) != 1:
        print(
            f"GONE      {defect['name']}: {defect['file']} has this code {text.count(defect['old'])} times", flush=True
        )
        return 2
    file.write_text(text.replace(defect["old"], defect["new"]))
    began = time.monotonic()
    tests = [test for test in defect["tests"] if (copy / test.partition("::")[0]).exists()] or ["nothing"]
    code = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests],
        cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, timeout=TIMEOUT_SECONDS, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ).returncode  # fmt: skip
    shutil.rmtree(copy)
    found = code == 1  # pytest: tests failed; anything else is trouble of the run
    print(f"{'found' if found else 'SURVIVES'}  {defect['name']} ({time.monotonic() - began:.0f} s)", flush=True)
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
