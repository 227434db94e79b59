"""Sessions with the server, one after another, with back-off between them: the reaction to the end of each."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from shipper import events
from shipper.errors import Transient, Unavailable
from shipper.retry import SESSION, Backoff, Patience

Trouble = Transient | Unavailable
"""Errors that end a session, but not the program."""


def session_backoff(_: Trouble) -> Backoff:
    """The back-off after a session that ended."""
    return SESSION


class SessionRetry:
    """The back-off between sessions of `program`, as long as `patience` lasts.

    After trouble, `nap` waits for the seconds of the back-off that `policy` chooses; without `nap` the caller waits.
    `report` is called first; without it the event `session_ended` is logged.

    ```python
    while not stop.asked:
        async with retry.attempt():
            await session()
            break
    ```
    """

    def __init__(
        self, program: str, patience: Patience, *, nap: Callable[[float], Awaitable[None]] | None = None,
        policy: Callable[[Trouble], Backoff] = session_backoff,
        report: Callable[[Trouble, float], None] | None = None,
    ) -> None:  # fmt: skip
        self._program = program
        self._patience = patience
        self._nap = nap
        self._policy = policy
        self._report = report or self._log

    @contextlib.asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """One session: `Transient` and `Unavailable` end it, and the back-off follows.

        Raises:
            Unavailable: the patience is at its end; and what else `Patience.after` raises.
        """
        try:
            yield
        except (Transient, Unavailable) as error:
            delay = self._patience.after(error, self._policy(error))
            self._report(error, delay)
            if self._nap is not None:
                await self._nap(delay)

    def _log(self, error: Trouble, delay: float) -> None:
        events.session_ended(program=self._program, error=str(error), hint=error.hint, retry_in=delay)
