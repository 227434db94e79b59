"""Retry policies as named data, the loop that waits between attempts, and the back-off between sessions of a program.

The only importer of tenacity.
"""

import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from shipper import events
from shipper.errors import InsecureConnection, RightMissing, ServerTooOld, ShipperError, Transient, Unavailable
from shipper.lifecycle import Stop

_T = TypeVar("_T")

FOR_A_PERSON = (RightMissing, InsecureConnection, ServerTooOld)
"""Errors that no retry cures: a person must change the rights, the server, or the TLS settings of both."""


class Backoff:
    """Full jitter below an exponential ceiling: `first` seconds, doubling, at most `cap`."""

    def __init__(self, first: float, cap: float) -> None:
        self._wait = tenacity.wait_random_exponential(multiplier=first, max=cap)

    def delay(self, attempt: int) -> float:
        """Seconds to wait after failed attempt number `attempt`, from 1."""
        state = tenacity.RetryCallState(tenacity.AsyncRetrying(), None, (), {})
        state.attempt_number = min(attempt, 32)  # beyond it 2**n only costs time
        return self._wait(state)


SESSION = Backoff(first=0.1, cap=5.0)  #: a session with the server ended
FULL = Backoff(first=0.5, cap=15.0)  #: the stream is full, or does not exist yet
BUSY = Backoff(first=0.02, cap=1.0)  #: the stream's queue in the server is full
ARCHIVE = Backoff(first=0.5, cap=5.0)  #: the archive cannot be written
PLACE = Backoff(first=1.0, cap=4.0)  #: a cluster that has just started, or lost a node, has no place for a stream


class SessionGroup:
    """The sessions of one program: after the first that works, the program's start is over for all of them."""

    has_served = False


class Patience:
    """How long a program goes on without a server: briefly at its start, later as long as its work allows."""

    def __init__(
        self,
        *,
        at_start: float,
        later: float,
        clock: Callable[[], float] = time.monotonic,
        group: SessionGroup | None = None,
    ) -> None:
        self._group = group or SessionGroup()
        self._at_start = at_start
        self._later = later
        self._clock = clock
        self._since = clock()
        self._served = False
        self._failures = 0

    def served(self) -> None:
        """A session with the server works. Only the first renews patience, or trouble in every session had no end."""
        self._group.has_served = True
        if not self._served:
            self._served = True
            self.progress()

    def progress(self) -> None:
        """Something went forward: patience and backoff begin anew."""
        self._since = self._clock()
        self._failures = 0

    def after(self, error: Transient | Unavailable, policy: Backoff) -> float:
        """Seconds to wait after `error`.

        Raises Unavailable: the time limit is over. `FOR_A_PERSON`: only a person can help. A program
        whose limit is infinite retries these errors, too: it has files to keep open, and the server may recover.
        """
        limit = self._later if self._group.has_served else self._at_start
        if isinstance(error, FOR_A_PERSON) and limit < math.inf:
            raise error
        if self._clock() - self._since > limit:
            raise Unavailable(str(error), hint=error.hint) from None
        self._failures += 1
        return min(policy.delay(self._failures), max(limit / 8, 0.1))


async def until_done(
    work: Callable[[], Awaitable[_T]],
    *,
    policy: Backoff,
    stop: Stop,
    attempts: int,
    retry_on: type[ShipperError] = Transient,
) -> _T:
    """`work`'s result, tried again after such errors (`retry_on`) at most `attempts` times in all, or until `stop`.

    An error that only an administrator can resolve ends the attempts immediately.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            return await work()
        except retry_on as error:
            if attempt >= attempts or stop.requested or isinstance(error, FOR_A_PERSON):
                raise
            await stop.nap(policy.delay(attempt))


Trouble = Transient | Unavailable
"""Errors that end a session, but not the program."""


@dataclass(frozen=True)
class SessionRetry:
    """The back-off between sessions of `program`, as long as `patience` lasts.

    After trouble, `nap` waits for the seconds of the back-off that `policy` chooses; without `nap` the caller waits.
    `report` is called first; without it the event `session_ended` is logged.

    ```python
    while not stop.requested:
        async with retry.attempt():
            await session()
            break
    ```
    """

    program: str
    patience: Patience
    nap: Callable[[float], Awaitable[None]] | None = None
    policy: Callable[[Trouble], Backoff] | None = None  #: None: `SESSION`
    report: Callable[[Trouble, float], None] | None = None

    @contextlib.asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """One session: `Transient` and `Unavailable` end it, and the back-off follows. Raises as `Patience.after`."""
        try:
            yield
        except (Transient, Unavailable) as error:
            delay = self.patience.after(error, self.policy(error) if self.policy else SESSION)
            if self.report:
                self.report(error, delay)
            else:
                events.session_ended(program=self.program, error=str(error), hint=error.hint, retry_in=delay)
            if self.nap:
                await self.nap(delay)
