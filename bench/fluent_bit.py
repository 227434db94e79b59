"""Two Fluent Bits of one configuration: tail, forward with acknowledgements, buffers in the file system, file output.

FSHIPPER_FLUENT_BIT=/path/to/fluent-bit names the program.
"""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cases.peers import free_port, until_listening
from programs import Program

BINARY = os.environ.get("FSHIPPER_FLUENT_BIT", "")
SENDER = """
[SERVICE]
    flush 0.2
    log_level error
    storage.path {directory}/sender
[INPUT]
    name tail
    path {source}
    read_from_head true
    buffer_chunk_size 512k
    buffer_max_size 4m
    storage.type filesystem
[OUTPUT]
    name forward
    match *
    host 127.0.0.1
    port {port}
    require_ack_response true
    retry_limit no_limits
"""
RECEIVER = """
[SERVICE]
    flush 0.2
    log_level error
    storage.path {directory}/receiver
[INPUT]
    name forward
    listen 127.0.0.1
    port {port}
    storage.type filesystem
[OUTPUT]
    name file
    match *
    path {directory}
    file target
    format template
    template {{log}}
"""


@dataclass(frozen=True)
class FluentBit:
    """Both ends, and where the lines arrive."""

    sender: Program
    receiver: Program
    target: Path

    @property
    def cpu_s(self) -> float:
        """CPU seconds of both so far."""
        return self.sender.cpu_s + self.receiver.cpu_s

    def stop(self) -> float:
        """End both. CPU seconds of both."""
        return self.sender.stop().cpu_s + self.receiver.stop().cpu_s


@contextlib.contextmanager
def running(source: Path, directory: Path) -> Iterator[FluentBit]:
    """Both ends, from `source` to a file below `directory`."""
    port, programs = free_port(), list[Program]()
    try:
        for name, text in (("receiver", RECEIVER), ("sender", SENDER)):
            configuration = directory / f"{name}.conf"
            configuration.write_text(text.format(directory=directory, source=source, port=port))
            command = [BINARY, "-c", str(configuration)]
            programs.append(Program(command, {"PATH": "/usr/bin:/bin"}, directory / f"{name}.log"))
            until_listening(port)
        yield FluentBit(programs[1], programs[0], directory / "target")
    finally:
        for program in programs:
            program.kill()
