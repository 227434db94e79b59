"""Collectors that share, as processes, and what they are given to write.

with Shared(tmp_path, natsd.url, partitions=2, lease="1s") as shared:
    first, second = shared.consume(), shared.consume()
    shared.send(host, 100)                   # lines reach the stream, as a producer would send them
    shared.wait_until_archived()
"""

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
from pathlib import Path

import nats
from collecting import Log
from harness.fleet import Fleet, Program, until

from shipper.partition_map import partition_for

STOPPING = """
import importlib, os, signal, sys
module, owner, name, when, partition = sys.argv[1:6]
place = getattr(importlib.import_module(module), owner)
original = getattr(place, name)
def stopping(*arguments, **named):
    setattr(place, name, original)
    if when == "behind":
        result = original(*arguments, **named)
    os.kill(os.getpid(), signal.SIGSTOP)
    return result if when == "behind" else original(*arguments, **named)
setattr(place, name, stopping)
from shipper.main import run
sys.exit(run(["consume", "--partitions", partition]))
"""
"""A collector that stops (SIGSTOP) the first time that it comes to a statement."""


class Shared(Fleet):
    """A fleet whose streams are fed by the test itself."""

    def __init__(self, directory: Path, url: str, *, partitions: int = 1, **settings: str) -> None:
        super().__init__(directory, url, partitions=partitions)
        self._config = directory / "fshipper.toml"
        self._config.write_text(
            "".join(["[collector]\n", *(f'{name} = "{value}"\n' for name, value in settings.items())])
        )
        self.logs: dict[str, Log] = {}

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(SHIPPER_CONFIG=str(self._config), **more)

    def consume_until(self, module: str, owner: str, name: str, when: str, *, partition: int) -> Program:
        """A collector of one partition that stops at a statement."""
        log = self.directory / f"stopping-{partition}.log"
        program = Stopping([module, owner, name, when, str(partition)], self.environment(), log)
        self.programs.append(program)
        return program

    def send(self, host: str, lines: int, *, blocks: int = 4) -> None:
        """More lines of a host reach its stream, in some blocks."""
        log = self.logs.setdefault(host, Log(b"", id=f"{len(self.logs) + 161:016x}", host=host))
        begin = len(log.data)
        first = log.data.count(b"\n")
        log.data += b"".join(b"%s line %d of a log\n" % (host.encode(), first + each) for each in range(lines))
        ends = [
            log.data.index(b"\n", begin + (len(log.data) - 1 - begin) * each // blocks) + 1 for each in range(blocks)
        ]
        spans = zip([begin, *ends], [*ends, len(log.data)], strict=True)
        asyncio.run(self._publish([log.message(*span) for span in spans if span[0] < span[1]]))

    async def _publish(self, messages: list[tuple[str, dict[str, str], bytes]]) -> None:
        client = await nats.connect(self.url)
        for subject, headers, payload in messages:
            partition = partition_for(subject.partition(".p0.")[2], self.partitions)
            there = subject.replace(".p0.", f".p{partition}.")
            assert b'"seq"' in (await client.request(there, payload, headers=headers, timeout=20)).data
        await client.close()

    def text(self, host: str) -> bytes:
        """What the archive holds of a host; nothing for sure while a file is sealed under the reader's eyes."""
        with contextlib.suppress(FileNotFoundError):
            return self.archived(host, self.logs[host].file)
        return b""

    def wait_until_archived(self, *programs: Program) -> None:
        """Until every line that was sent is there, once and in order."""
        for host, log in self.logs.items():
            until(
                lambda: self.text(host) == log.data,  # noqa: B023
                within=60,
                what=f"{host}: {len(self.text(host))} of {len(log.data)} bytes\n"
                + "\n".join(program.log for program in programs),
            )


class Stopping(Program):
    """`arguments`: module, owner, name, `before` or `behind` it, and the partition."""

    def start(self, **more: str) -> None:
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", STOPPING, *self.arguments],
                env=self._environment | more,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )


def pause(program: Program) -> None:
    program.process.send_signal(signal.SIGSTOP)
    until(lambda: is_paused(program))


def wake(program: Program) -> None:
    program.process.send_signal(signal.SIGCONT)


def stop(*programs: Program) -> None:
    """SIGTERM to all in parallel; each has to end well."""
    for program in programs:
        program.process.send_signal(signal.SIGTERM)
    for program in programs:
        assert program.wait() == 0, program.log


def is_paused(program: Program) -> bool:
    try:
        return Path(f"/proc/{program.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:
        raise AssertionError(f"it ended\n{program.log}") from None


def held(program: Program) -> set[int]:
    """The partitions that a collector writes, by its own report."""
    found: set[int] = set()
    for line in program.log_file.read_text().splitlines():
        partition = re.search(r"partition=(\d+)", line)
        if partition and "lease_taken" in line:
            found.add(int(partition[1]))
        elif partition and ("lease_released" in line or " fenced " in line):
            found.discard(int(partition[1]))
    return found
