"""The real logrotate with every combination of its options: each line is archived once, in the order of writing.

Daily a drawn part, in which each pair of values meets; `make test-all` runs all. `docs/development/logrotate.md` has
the table that this module makes of its combinations.
"""

import datetime
import itertools
import random
import re
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
DIRECTORIES = {"beside": (), "olddir": ("olddir old", "createolddir")}
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
    today, before = datetime.date.today(), datetime.date(2026, 1, 1) + datetime.timedelta(days=turn)
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


def archived(host: Host) -> bytes:
    return b"".join(data for _, data in host.archive.order)


def result(combination: Combination, directory: Path) -> str:
    """What became of the lines: "once, in order", or what is wrong."""
    wanted, host = run(combination, directory)
    got = archived(host)
    if got == wanted:
        return "once, in order"
    lines, expected = got.splitlines(), wanted.splitlines()
    doubled, lost = len(lines) - len(set(lines)), len(set(expected) - set(lines))
    names = sorted({re.sub(".*/", "", name) for name in host.archive.files.values()})
    return f"{doubled} twice, {lost} lost, of {len(expected)}; {names}" if doubled or lost else "once, in another order"
