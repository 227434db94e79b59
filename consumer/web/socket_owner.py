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
        wanted = [_shown(client), _shown(server)]
        with TABLES[_address(client).version].open(encoding="ascii") as rows:
            for row in rows:
                fields = row.split()
                if fields[_LOCAL : _REMOTE + 1] == wanted:
                    return int(fields[_UID])
    except (OSError, ValueError):
        pass
    return None


def _address(end: Client) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address of an end. A client with an IPv4 address has such a socket, also where the server's is of IPv6."""
    found = ipaddress.ip_address(end[0])
    return (found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None) or found


def _shown(end: Client) -> str:
    """An address and a port as the table has them: words of 32 bits in the machine's order, in hexadecimal."""
    packed = _address(end).packed
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return f"{''.join(f'{word:08X}' for word in words)}:{end[1]:04X}"
