"""Free ports for servers of tests: no other test process of this machine gets a port that one of them holds.

A port stays locked until the process that requested it ends. The range is below the ports that the kernel gives to
outgoing connections, so a server can be killed and started again on its port.
"""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

FIRST, LAST = 12_000, 32_000
LOCKS = Path(tempfile.gettempdir()) / f"fshipper-ports.{os.getuid()}"

_held: dict[int, int] = {}
_next = FIRST + (os.getpid() * 97) % (LAST - FIRST)


def free_port(*, also: int = 0) -> int:
    """A port that nothing listens on, neither TCP nor UDP; never the same one twice in a process.

    `also`: nothing listens on the port that is so much higher, either.
    """
    global _next
    LOCKS.mkdir(exist_ok=True)
    for _ in range(LAST - FIRST):
        port, _next = _next, _next + 1 if _next + 1 < LAST else FIRST
        wanted = {port, port + also}
        if not wanted & set(_held) and all(map(_lock, wanted)):
            return port
    raise RuntimeError(f"no free port between {FIRST} and {LAST}")


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]


def _lock(port: int) -> bool:
    descriptor = os.open(LOCKS / str(port), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
    except OSError:
        os.close(descriptor)
        return False
    _held[port] = descriptor
    return True
