"""Needles drawn from real logs: the same lines as `zstdgrep -F` finds."""

import random
import subprocess
from pathlib import Path

import pytest
from searching import places_here, write_archive

from consumer.read.query import Case, Options, parse_fixed

SAMPLES = sorted((Path(__file__).resolve().parents[3] / "shared" / "data" / "loghub").glob("*.log"))


@pytest.mark.skipif(not SAMPLES, reason="the Loghub samples are not here")
def test_needles_of_real_logs_are_found_as_zstdgrep_finds_them(tmp_path: Path) -> None:
    random_ = random.Random(23)
    files = {("web1.example.net", f"/{path.name}"): path.read_bytes() for path in SAMPLES[:6]}
    archive = write_archive(tmp_path, files, lambda text: [text])
    for number in range(24):
        text = random_.choice(list(files.values()))
        at = random_.randrange(len(text) - 40)
        needle = text[at : at + random_.randrange(2, 40)].partition(b"\n")[0].partition(b"\r")[0] or b"error"
        if not needle.isascii():
            continue
        ignores_case = bool(number % 3 == 0)
        query = parse_fixed(needle.decode(), Options(Case.IGNORED if ignores_case else Case.SENSITIVE))
        found = [place.line for place in sorted(places_here(archive, query))]
        expected = []
        for _, file in sorted(files):
            (segment,) = archive.rglob(f"{file[1:]}-*.zst")
            grep = ["zstdgrep", "-a", "-F", *(["-i"] if ignores_case else []), "-e", needle, segment]
            done = subprocess.run(grep, capture_output=True, check=False, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
            expected += done.stdout.split(b"\n")[:-1]
        assert found == expected, needle
