"""The user id of a client that is connected from this machine, as the kernel's table of connections has it."""

import ipaddress
import struct
from pathlib import Path

from consumer.web.connections import Client

TABLES = {4: Path("/proc/net/tcp"), 6: Path("/proc/net/tcp6")}
_LOCAL, _REMOTE, _UID = 1, 2, 7
"""Columns of a row."""


def owner_of_client(client: Client, server: Client) -> int | None:
    """The user id of the socket at `client`. None: it is not a socket of this machine, or cannot be known."""
    try:
        version, wanted = ipaddress.ip_address(client[0]).version, [_shown(client), _shown(server)]
        with TABLES[version].open(encoding="ascii") as rows:
            for row in rows:
                fields = row.split()
                if fields[_LOCAL : _REMOTE + 1] == wanted:
                    return int(fields[_UID])
    except (OSError, ValueError):
        pass
    return None


def _shown(end: Client) -> str:
    """An address and a port as the table has them: words of 32 bits in the machine's order, in hexadecimal."""
    packed = ipaddress.ip_address(end[0]).packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return f"{''.join(f'{word:08X}' for word in words)}:{end[1]:04X}"
