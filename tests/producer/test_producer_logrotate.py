"""The real logrotate with every combination of its options: each line is archived once, in the order of writing.

Daily a drawn part, in which each pair of values meets; `make test-all` runs all. `docs/reference/producer.md` has the
table that this module makes of its combinations.
"""

import datetime as dt
import itertools
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from producing import Host, append

if shutil.which("logrotate", path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
    pytest.skip("needs the package logrotate", allow_module_level=True)

NAMES = {
    "app.log.1": ("nodateext",),
    "app.1.log": ("nodateext", "extension .log"),
    "app.log.0": ("nodateext", "start 0"),
    "app.log-20261128": ("dateext",),
    "app-20261128.log": ("dateext", "extension .log"),
    "app.28-11-2026.log": ("dateext", "dateformat .%d-%m-%Y", "extension .log"),
    "app.log.1.old": ("nodateext", "addextension .old"),
}
WAYS = {
    "copytruncate": ("copytruncate",),
    "copy": ("copy",),
    "create": ("create 0644", "maxage 30", "sharedscripts"),
    "nocreate": ("nocreate", "missingok"),
}
PACKED = {
    "plain": ("nocompress",),
    "gz": ("compress",),
    "gz a turn later": ("compress", "delaycompress"),
    "xz": ("compress", "compresscmd /usr/bin/xz", "compressext .xz"),
    "zst": ("compress", "compresscmd /usr/bin/zstd", "compressext .zst", "compressoptions --quiet --rm"),
    "bz2": ("compress", "compresscmd /bin/bzip2", "compressext .bz2"),
}
DIRECTORIES = {"same directory": (), "olddir": ("olddir old", "createolddir")}
GLOBS = {"only app.log": ("app.log",), "everything": ("app*", "old/*")}
MOMENTS = ("running", "half read", "unseen", "stopped", "stopped half read", "stopped for two")
ROUNDS = 3
LINES = 60


class Combination(NamedTuple):
    name: str
    way: str
    packed: str
    directory: str
    glob: str
    moment: str


EVERY = [Combination(*each) for each in itertools.product(NAMES, WAYS, PACKED, DIRECTORIES, GLOBS, MOMENTS)]


def pairwise(combinations: list[Combination], seed: int) -> Iterator[Combination]:
    """So many of the combinations that each pair of values is in one of them."""
    drawn, met = random.Random(seed).sample(combinations, len(combinations)), set[tuple[str, str]]()
    for each in drawn:
        pairs = set(itertools.combinations(each, 2))
        if len(pairs - met) > 2 or (pairs - met and each.way == "copytruncate"):
            met |= pairs
            yield each


def config(combination: Combination, directory: Path) -> Path:
    options = [
        *NAMES[combination.name],
        *WAYS[combination.way],
        *PACKED[combination.packed],
        *DIRECTORIES[combination.directory],
    ]
    text = "\n    ".join(["rotate 20", "size 1", "su root root", *options])
    path = directory / "logrotate.conf"
    path.write_text(f"{directory}/logs/app.log {{\n    {text}\n}}\n")
    path.chmod(0o644)
    return path


def rotate(configuration: Path, turn: int) -> None:
    """One rotation, after which a day is over: what has the date of today has an earlier one."""
    state = configuration.with_name("logrotate.state")
    command = ["/usr/sbin/logrotate", "-f", "-s", str(state), str(configuration)]
    subprocess.run(command, check=True, capture_output=True)
    logs = configuration.parent / "logs"
    today, before = dt.datetime.now().astimezone().date(), dt.date(2026, 1, 1) + dt.timedelta(days=turn)
    for path in [*logs.iterdir(), *(logs / "old").glob("*")]:
        for form in ("%Y%m%d", "%d-%m-%Y"):
            if today.strftime(form) in path.name:
                path.rename(path.with_name(path.name.replace(today.strftime(form), before.strftime(form))))


def written(turn: int, part: str, count: int = LINES) -> bytes:
    return b"".join(b"turn %d %s line %d of a program that writes\n" % (turn, part.encode(), n) for n in range(count))


def settle(host: Host) -> None:
    for _ in range(8):
        host.now += host.following.rotate_wait / 2 + 0.1
        host.ship()


def run(combination: Combination, directory: Path) -> tuple[bytes, Host]:
    logs = directory / "logs"
    logs.mkdir(parents=True)
    path = logs / "app.log"
    configuration = config(combination, directory)
    path.touch()
    state = directory / "state"
    state.mkdir()
    host = Host(logs, *GLOBS[combination.glob], state=state, block=1024)
    wanted = b""
    for turn in range(ROUNDS):
        first, rest = written(turn, "first"), written(turn, "rest")
        wanted += first + rest
        append(path, first)
        if "half read" in combination.moment:
            host.sources.scan()
            host.read(1)
            host.deliver()
            host.acknowledge()
            host.save()
        else:
            host.ship()
        append(path, rest)
        if combination.moment == "running":
            host.ship()
        if "stopped" in combination.moment:
            host.kill()
        rotate(configuration, turn)
        if combination.moment == "stopped for two":
            append(path, again := written(turn, "again"))
            wanted += again
            rotate(configuration, turn + 100)
        append(path, tail := written(turn, "tail", 3))
        wanted += tail
        if "stopped" in combination.moment:
            host.start()
        host.ship()
        settle(host)
    host.restart()
    settle(host)
    host.kill()
    return wanted, host


ONCE = "each line once, in order"
ONCE_EACH = "each line once; a file that was never seen under its new name"
UNSEEN_LOST = "each line once, but a file that was never seen is not read"


def expected(combination: Combination) -> set[str]:
    """What may become of the lines. What was never seen is known by its name only, and only next to the original."""
    is_usual = combination.directory == "same directory" and combination.name != "app.1.log"
    if combination.moment != "stopped for two" or combination.way == "copy":
        return {ONCE}
    if combination.glob == "everything" and combination.packed in ("plain", "gz a turn later"):
        return {ONCE, ONCE_EACH}
    return {ONCE} if is_usual else {ONCE, UNSEEN_LOST}


def result(combination: Combination, directory: Path) -> str:
    """What became of the lines."""
    wanted, host = run(combination, directory)
    got = b"".join(data for _, data in host.archive.order)
    if got == wanted:
        return ONCE
    lines, written_lines = got.splitlines(), wanted.splitlines()
    doubled, lost = len(lines) - len(set(lines)), set(written_lines) - set(lines)
    if not doubled and not lost:
        return ONCE_EACH
    if not doubled and all(b" again line " in line for line in lost):
        return UNSEEN_LOST
    return f"{doubled} lines twice, {len(lost)} lost, of {len(written_lines)}"


def wrong(combinations: list[Combination], directory: Path) -> dict[Combination, str]:
    found = {}
    for number, each in enumerate(combinations):
        got = result(each, directory / str(number))
        if got not in expected(each):
            found[each] = got
        shutil.rmtree(directory / str(number))
    return found


def table() -> str:
    """The combinations and what is expected of them, as a table in Markdown: moments with one result are one row."""
    moments: dict[tuple[str, ...], list[str]] = {}
    for moment in MOMENTS:
        moments.setdefault(tuple(cell(moment, glob) for glob in GLOBS), []).append(moment)
    rows = [f"| moment of the rotation | {' | '.join(GLOBS)} |", "|---" * (len(GLOBS) + 1) + "|"]
    rows += [f"| {', '.join(names)} | {' | '.join(cells)} |" for cells, names in moments.items()]
    return "\n".join(rows)


def cell(moment: str, glob: str) -> str:
    """What is expected in any directory."""
    those = [each for each in EVERY if (each.moment, each.glob) == (moment, glob)]
    return "; or ".join(sorted(set().union(*map(expected, those))))


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("producer.checkpoint.store._SYNC", "OFF")


def test_of_a_drawn_part_of_the_combinations_each_line_arrives_once(tmp_path: Path) -> None:
    part = list(pairwise(EVERY, seed=31))
    assert len(part) > 50
    assert wrong(part, tmp_path) == {}


@pytest.mark.parametrize("moment", MOMENTS)
def test_of_every_combination_each_line_arrives_once(moment: str, tmp_path: Path) -> None:
    assert wrong([each for each in EVERY if each.moment == moment], tmp_path) == {}


def test_the_document_has_the_table_of_the_combinations() -> None:
    document = Path(__file__).resolve().parents[2] / "docs" / "reference" / "producer.md"
    assert table() in document.read_text()
