"""A fleet whose hosts are blocks published by the wire's own codec, and `fshipper tail` over it.

with TailFleet(tmp_path, natsd.url, partitions=4) as fleet:
    fleet.send(*fleet.blocks("web1.example.net", b"one\\ntwo\\n"))
    fleet.tail("web*")                           # what it wrote, once it ended with 0
    following = fleet.follow("web*")             # a process, and its output so far
"""

import asyncio
import itertools
import json
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from collecting import Log
from harness import forking
from harness.fleet import Fleet, until
from harness.natsd import NatsServer
from hostile import Wild, publish

from shipper.jetstream.admin import administration
from shipper.partition_map import partition_for
from shipper.settings import NatsSettings
from shipper.subjects import COLLECTOR, log_subject


class Following:
    """A process whose output is read as it comes."""

    def __init__(self, arguments: list[str], environment: dict[str, str], directory: Path) -> None:
        self.output, self.errors = directory / "tail.out", directory / "tail.err"
        with self.output.open("wb") as out, self.errors.open("wb") as err:
            self.process = forking.popen(arguments, env=environment, stdout=out, stderr=err, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def written(self) -> bytes:
        return self.output.read_bytes()

    def complained(self) -> str:
        return self.errors.read_text()

    def writes(self, line: bytes, within: float = 20.0) -> float:
        """Seconds until `line` is there."""
        begun = time.monotonic()
        until(
            lambda: line in self.written(),
            within=within,
            what=lambda: f"no {line!r} in {self.written()[-2000:]!r}\n{self.complained()}",
        )
        return time.monotonic() - begun

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.process.wait(15)


class TailFleet(Fleet):
    """Hosts whose blocks a test publishes, and the programs that read them."""

    def __init__(self, directory: Path, server: NatsServer, *, partitions: int = 4) -> None:
        super().__init__(directory, server.url, partitions=partitions)
        self.server = server
        self.apply()

    def add_stream(self, number: int) -> None:
        """The stream of one more partition."""

        async def work() -> None:
            async with administration(NatsSettings(url=self.server.url)) as admin:
                config = (await admin.stream("LOGS_0"))["config"]
                await admin.create_stream(config | {"name": f"LOGS_{number}", "subjects": [f"logs.p{number}.>"]})

        asyncio.run(work())

    def blocks(self, log: Log, *borders: int) -> list[Wild]:
        """The blocks of a source between some offsets; all of it is one without any."""
        ends = borders or (0, len(log.data))
        subject = log_subject("logs", partition_for(log.host, self.partitions), log.host)
        return [(subject, *log.message(start, end)[1:]) for start, end in itertools.pairwise(ends)]

    def send(self, *messages: Wild) -> None:
        """Publish, and wait until the streams have all: in this order within a stream, in any between two of them."""
        before = self.stored()
        publish(self.server, *messages)
        until(lambda: self.stored() == before + len(messages), what="the streams have them")

    def tail(self, *arguments: str, code: int = 0, **more: str) -> bytes:
        """What `fshipper tail` writes, from beginning to end."""
        return self.run_bytes("tail", *arguments, code=code, **more)

    def run_bytes(self, *arguments: str, code: int = 0, **more: str) -> bytes:
        piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with forking.popen(list(arguments), env=self.environment(**more), **piped) as process:
            out, errors = process.communicate(timeout=60)
        assert process.returncode == code, f"{arguments} ended with {process.returncode}\n{errors.decode()}"
        self.noted = errors.decode()
        return out

    def follow(self, *arguments: str) -> Following:
        following = Following(["tail", "-f", *arguments], self.environment(), self.directory)
        self.programs.append(following)  # type: ignore[arg-type]
        return following

    def stored(self) -> int:
        return sum(info["state"]["messages"] for info in self.streams())

    def streams(self) -> list[dict[str, Any]]:
        return [info for info in self._asked("streams") if info["config"]["name"].startswith("LOGS_")]

    def readers(self) -> list[dict[str, Any]]:
        """Every consumer that is not a collector's."""
        names = [info["config"]["name"] for info in self.streams()]
        return [each for name in names for each in self._asked("consumers", name) if each["name"] != COLLECTOR]

    def collectors(self) -> list[dict[str, Any]]:
        names = [info["config"]["name"] for info in self.streams()]
        return [each for name in names for each in self._asked("consumers", name) if each["name"] == COLLECTOR]

    def _asked(self, what: str, *arguments: str) -> list[dict[str, Any]]:
        async def ask() -> list[dict[str, Any]]:
            async with administration(NatsSettings(url=(self.url,))) as admin:
                return await getattr(admin, what)(*arguments)

        return asyncio.run(ask())

    def delete_consumer(self, stream: str, name: str) -> None:
        self._asked("delete_consumer", stream, name)

    def purge(self, stream: str, below: int) -> None:
        async def ask() -> None:
            async with administration(NatsSettings(url=(self.url,))) as admin:
                await admin._ask(f"STREAM.PURGE.{stream}", {"seq": below})

        asyncio.run(ask())


def objects(output: bytes) -> list[dict[str, Any]]:
    """What `--json` wrote."""
    return [json.loads(line) for line in output.splitlines()]


def logs(hosts: Iterable[str], text: str = "{host} says {n}\n", lines: int = 2) -> list[Log]:
    """A source of each host."""
    return [
        Log("".join(text.format(host=host, n=n) for n in range(lines)).encode(), id=f"{number:016x}", host=host)
        for number, host in enumerate(hosts, start=1)
    ]
