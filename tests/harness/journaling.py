"""A small journalctl that reads entries from a file, and the file: what a journal does, step by step, in a test.

journal = Journal(tmp_path)           # journal.bin goes on PATH, journal.directory is --directory
journal.add("one", "two")
journal.vacuum(1)                     # the oldest entry is gone
"""

import json
import os
import sys
from pathlib import Path

SCRIPT = """#!{python}
import json, os, sys, time

options = dict(arg.lstrip("-").partition("=")[::2] for arg in sys.argv[1:] if arg.startswith("--"))
matches = [arg.partition("=")[::2] for arg in sys.argv[1:] if not arg.startswith("--")]
path = os.path.join(options["directory"], "entries")
for trouble in (os.path.join(options["directory"], "trouble"),):
    if os.path.exists(trouble):
        print(open(trouble).read(), file=sys.stderr)
        os.unlink(trouble)
        sys.exit(1)


def number(cursor):
    return int(dict(part.split("=") for part in cursor.split(";"))["i"], 16)


def entries():
    with open(path, "rb") as stream:
        whole = stream.read().rpartition(b"\\n")[0]
    found = [(line, json.loads(line)) for line in whole.split(b"\\n") if line]
    return [(line, entry) for line, entry in found if all(entry.get(name) == value for name, value in matches)]


there = entries()
if "cursor" in options:
    there = [each for each in there if number(each[1]["__CURSOR"]) >= number(options["cursor"])]
    there = there[: int(options["lines"])] if "lines" in options else there
elif "lines" in options:
    there = there[len(there) - int(options["lines"]) :]
done = 0
while True:
    for line, entry in there:
        sys.stdout.buffer.write(line + b"\\n")
        done = number(entry["__CURSOR"])
    sys.stdout.buffer.flush()
    if "follow" not in options:
        break
    time.sleep(0.01)
    if os.getppid() == 1:
        break
    there = [each for each in entries() if number(each[1]["__CURSOR"]) > done]
"""


class Journal:
    """The entries of one journal, and the program that reads them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "journal"
        self.directory.mkdir()
        self.bin = directory / "bin"
        self.bin.mkdir()
        script = self.bin / "journalctl"
        script.write_text(SCRIPT.replace("{python}", sys.executable))
        script.chmod(0o755)
        self._file = self.directory / "entries"
        self._file.touch()
        self._next = 1

    @property
    def path(self) -> str:
        """PATH with the small journalctl in front."""
        return f"{self.bin}:{os.environ['PATH']}"

    def add(self, *messages: str, **fields: object) -> None:
        lines = b""
        for message in messages:
            entry = {
                "__CURSOR": f"s=aa;i={self._next:x};b=bb;m=1;t=1;x={self._next}",
                "__REALTIME_TIMESTAMP": str(1_700_000_000_000_000 + self._next),
                "_HOSTNAME": "web1",
                "SYSLOG_IDENTIFIER": "app",
                "_PID": "7",
                "MESSAGE": message,
            }
            lines += json.dumps(entry | fields).encode() + b"\n"
            self._next += 1
        with self._file.open("ab") as stream:
            stream.write(lines)

    def vacuum(self, count: int) -> None:
        """The oldest `count` entries are gone."""
        kept = self._file.read_bytes().split(b"\n")[count:]
        temporary = self._file.with_name("entries.new")
        temporary.write_bytes(b"\n".join(kept))
        temporary.rename(self._file)

    def fail(self, why: str) -> None:
        """The next run of journalctl ends with an error."""
        (self.directory / "trouble").write_text(why)


def line(number: int, message: str) -> bytes:
    """Entry `number` (from 1 on) as text."""
    return f"2023-11-14T22:13:20.{number:06d}Z web1 app[7]: {message}\n".encode()
