"""The site's answers to hosts that join and leave, and the reload that makes the server know them."""

import datetime as dt
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from partitioner.access.permissions import Role
from partitioner.access.roster import Roster
from partitioner.access.store import AccessStore
from partitioner.enrolment.protocol import MAX_SKEW_SECONDS, JoinError, SiteAnswer, is_signed, joining, leaving
from partitioner.enrolment.tokens import TokenBook
from shipper.durable_files import LockHeld
from shipper.errors import ConfigError, UsageError
from shipper.subjects import checked_host

_T = TypeVar("_T")
LOCK_SECONDS = 5.0
"""How long an answer waits for another change of roster or tokens."""
RELOAD_SECONDS = 20.0
SYSTEMD = Path("/run/systemd/system")


@dataclass(frozen=True, slots=True)
class Reload:
    """Lets the server read its files again: by a command, or by its process id."""

    command: str
    pid_file: Path

    def __call__(self) -> None:
        """Raises ConfigError: it cannot be done."""
        if not self.command and not SYSTEMD.is_dir():
            self._signal()
            return
        command = shlex.split(self.command) or ["systemctl", "reload", "nats-server"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=RELOAD_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigError(f"cannot reload nats-server: {error}", hint="correct --reload") from None
        if ended.returncode:
            raise ConfigError(f"{shlex.join(command)} ended with {ended.returncode}: {ended.stderr.strip()[:200]}")

    def _signal(self) -> None:
        try:
            os.kill(int(self.pid_file.read_text()), signal.SIGHUP)
        except (OSError, ValueError):
            raise ConfigError(
                f"nats-server does not run ({self.pid_file})", hint="start it, or name its reload with --reload"
            ) from None


@dataclass(frozen=True, slots=True)
class Site:
    """One site: its directory with roster and tokens, where its server is, and how the server is reloaded."""

    directory: Path
    url: str
    reload: Reload
    clock: Callable[[], dt.datetime]

    def join(self, id_: str, secret: bytes, host: str, key: str, signature: str, address: str) -> SiteAnswer:
        """Accept the key of a host with its token. Raises JoinError, ConfigError."""
        host = checked_host(host)
        if not is_signed(key, joining(id_, host, key), signature):
            raise JoinError("the request is not signed with the key that it names")
        return _when_free(lambda: self._join(id_, secret, host, key, address))

    def _join(self, id_: str, secret: bytes, host: str, key: str, address: str) -> SiteAnswer:
        book = TokenBook(self.directory, now=self.clock())
        with book.redeeming(id_, secret, host=host, key=key, address=address) as entry:
            try:
                AccessStore(self.directory, now=self.clock()).enrol(host, key, replace=entry.replace)
            except UsageError as error:
                raise JoinError(str(error), hint=error.hint) from None
            self.reload()
        authority = (self.directory / "ca.pem").read_text()
        return SiteAnswer(self.url, authority, Roster.load(self.directory).prefix)

    def leave(self, host: str, key: str, at: int, signature: str) -> None:
        """End the key of a host, which has signed that it leaves. Raises JoinError, ConfigError."""
        if abs(self.clock().timestamp() - at) > MAX_SKEW_SECONDS:
            raise JoinError("the request is too old, or the host's clock is wrong", hint="set the clock, and try again")
        if not is_signed(key, leaving(host, key, at), signature):
            raise JoinError("the request is not signed with the key that it names")
        _when_free(lambda: self._leave(host, key))

    def _leave(self, host: str, key: str) -> None:
        member = Roster.load(self.directory).members.get(host)
        if member is not None and (member.role, member.public_key) != (Role.HOST, key):
            raise JoinError(f"{host} has another key", hint="revoke it in the centre: fshipper hosts revoke")
        if member is not None:  # else it has left before, and the answer was lost
            AccessStore(self.directory, now=self.clock()).revoke([host])
        self.reload()


def _when_free(work: Callable[[], _T]) -> _T:
    """The result of `work`, tried again while another process changes the same files."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return work()
        except LockHeld:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
