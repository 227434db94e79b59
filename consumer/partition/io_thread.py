"""The one thread in which a worker touches its journal and files, while its loop goes on receiving."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from shipper.errors import ArchiveTrouble
from shipper.watchdog import Pulse

_T = TypeVar("_T")


class Hand:
    """Does one thing after the other; each that is done is a sign of `pulse`."""

    def __init__(self, name: str, pulse: Pulse) -> None:
        self._pulse = pulse
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def do(self, work: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """The result of `work`. Raises ArchiveTrouble where it raises OSError or sqlite3.Error."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*arguments, **named))
        except (OSError, sqlite3.Error) as error:
            raise ArchiveTrouble(f"the archive cannot be written: {error}") from error
        finally:
            self._pulse.sign()

    def close(self) -> None:
        """Wait until everything is done."""
        self._thread.shutdown(wait=True)
