"""The same way through rsyslog, as Debian has it: two processes, file to file, a fast and a careful configuration."""

import contextlib
import shutil
import socket
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from figures import Line, Reading, cost, memory, throughput, times
from machine import settled
from programs import FailedError, Program, stage
from source import Source, part
from suite import Case, MissingError, Place

from cases import whole

FAST, CAREFUL = "rsyslog, plain TCP", "rsyslog, RELP with a queue on disk"
MODULES = "*/rsyslog/omrelp.so"
PEER_MB = {FAST: 256, CAREFUL: 128}  # slower ones get less: it is MB/s
SILENCE_SECONDS = 5.0  # nothing more comes
POLL_SECONDS = 0.01
HOST = "peer1.example.net"

GLOBAL = """
global(workDirectory="{work}" localHostname="{host}" maxMessageSize="64k" parser.escapeControlCharactersOnReceive="off")
main_queue(queue.type="FixedArray" queue.size="200000" queue.dequeueBatchSize="4096")
"""
SENDER = """
module(load="imfile")
input(type="imfile" file="{source}" tag="bench:" readMode="0")
"""
RECEIVER = """
template(name="raw" type="string" string="%msg%\\n")
template(name="file" type="string" string="{target}/%hostname%/bench.log")
"""
CONFIGURATIONS = {
    FAST: (
        """
action(type="omfwd" target="127.0.0.1" port="{port}" protocol="tcp"
       template="RSYSLOG_SyslogProtocol23Format" action.resumeRetryCount="-1" action.resumeInterval="1")
""",
        """
module(load="imtcp")
input(type="imtcp" address="127.0.0.1" port="{port}")
action(type="omfile" dynaFile="file" template="raw" ioBufferSize="256k")
""",
    ),
    CAREFUL: (
        """
module(load="omrelp")
action(type="omrelp" target="127.0.0.1" port="{port}" template="RSYSLOG_SyslogProtocol23Format"
       action.resumeRetryCount="-1" action.resumeInterval="1" windowSize="20000"
       queue.type="LinkedList" queue.filename="spool" queue.size="200000" queue.dequeueBatchSize="4096"
       queue.saveOnShutdown="on" queue.maxDiskSpace="4g")
""",
        """
module(load="imrelp")
input(type="imrelp" address="127.0.0.1" port="{port}" maxDataSize="128k")
action(type="omfile" dynaFile="file" template="raw" ioBufferSize="256k" sync="on")
""",
    ),
}


@dataclass(frozen=True)
class Peer:
    """Two processes of one configuration, and where they leave the lines."""

    sender: Program
    receiver: Program
    target: Path


def run(place: Place) -> list[Reading]:
    """Ours and the two others, in turn; who is first changes from run to run."""
    daemon = _daemon()
    ways = {
        whole.OURS: lambda: _ours(place),
        FAST: lambda: _theirs(FAST, daemon, place, "fast"),
        CAREFUL: lambda: _theirs(CAREFUL, daemon, place, "careful"),
    }
    names = list(ways)
    first = place.number % len(names)
    found: dict[str, list[Reading]] = {}
    for name in names[first:] + names[:first]:
        found[name] = ways[name]()
    ours = found[whole.OURS]
    over = [times(ours[0], found[name][0]) for name in (FAST, CAREFUL)]
    return [*ours, *over, *found[FAST], *found[CAREFUL]]


def _daemon() -> str:
    found = shutil.which("rsyslogd", path="/usr/sbin:/sbin:/usr/bin")
    if not found or not list(Path("/usr/lib").glob(MODULES)):
        raise MissingError("rsyslogd or its RELP modules are not here: sudo apt-get install rsyslog rsyslog-relp")
    return found


def _ours(place: Place) -> list[Reading]:
    settled()
    with stage(place.directory / "ours") as on:
        return whole.readings(whole.flow(on, place.source), place.source)[:3]


def _theirs(name: str, daemon: str, place: Place, directory: str) -> list[Reading]:
    source = part(place.source, PEER_MB[name], place.directory / f"{directory}.log")
    settled()
    began = time.monotonic()
    peer = _started(name, daemon, source, place.directory / directory)
    try:
        ended = until_silent(peer.target, source.size)
        used = [program.stop() for program in (peer.sender, peer.receiver)]
    finally:
        peer.sender.kill()
        peer.receiver.kill()
    lost, strange = compared(_lines(source.path), _lines(peer.target))
    return [
        throughput(name, source.size, ended - began),
        cost(name, source.size, sum(program.cpu_s for program in used), "CPU of all processes"),
        memory(name, max(program.peak_mib for program in used)),
        Reading(name, "lines lost", lost, "lines"),
        Reading(name, "lines doubled or changed", strange, "lines"),
    ]


def _started(name: str, daemon: str, source: Source, directory: Path) -> Peer:
    port = free_port()
    sends, receives = CONFIGURATIONS[name]
    facts = {"host": HOST, "source": source.path, "port": port, "target": directory / "target"}
    receiver = _rsyslogd(daemon, directory / "receiver", GLOBAL + RECEIVER + receives, facts)
    until_listening(port)  # a sender that is refused rests for a while
    sender = _rsyslogd(daemon, directory / "sender", GLOBAL + SENDER + sends, facts)
    return Peer(sender, receiver, directory / "target" / HOST / "bench.log")


def _rsyslogd(daemon: str, directory: Path, configuration: str, facts: dict[str, object]) -> Program:
    work = directory / "work"
    work.mkdir(parents=True)
    conf = directory / "rsyslog.conf"
    conf.write_text(configuration.format(work=work, **facts))
    command = [daemon, "-n", "-f", str(conf), "-i", str(directory / "pid")]
    return Program(command, {"PATH": "/usr/sbin:/usr/bin:/bin"}, directory / "rsyslogd.log")


def until_silent(path: Path, size: int) -> float:
    """When the file had grown for the last time (monotonic): to the size of the source, or to nothing more."""
    had, grew = 0, time.monotonic()
    while had < size and time.monotonic() - grew < SILENCE_SECONDS:
        time.sleep(POLL_SECONDS)
        has = path.stat().st_size if path.exists() else 0
        if has != had:
            had, grew = has, time.monotonic()
    return grew


def compared(source: "Counter[bytes]", target: "Counter[bytes]") -> tuple[int, int]:
    """Lines of the source that the target has not, and the other way round; often is not once."""
    return (source - target).total(), (target - source).total()


def _lines(path: Path) -> "Counter[bytes]":
    if not path.exists():
        return Counter()
    with path.open("rb") as lines:
        return Counter(line.rstrip(b"\n") for line in lines)


def until_listening(port: int) -> None:
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(POLL_SECONDS)
    raise FailedError(f"nothing listens on port {port}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


CASE = Case(
    "peers",
    "how much faster than rsyslog is it, file to file?",
    run,
    lines=(Line("at least 8 times rsyslog's plain TCP", whole.OURS, f"throughput over {FAST}", at_least=8.0),),
    notes=(
        f"rsyslog ships {PEER_MB[FAST]} and {PEER_MB[CAREFUL]} MB of the same source, from the start of both daemons",
        "until the target stopped growing; plain TCP syncs nothing; RELP acknowledges each message, has a queue that",
        "may go to disk, a window of 20,000 (with the 128 by default it does 0.1 MB/s here), and syncs the target",
    ),
)
