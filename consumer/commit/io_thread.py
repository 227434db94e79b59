"""The one thread that touches the journal and the files of a partition, so that the event loop goes on receiving."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from shipper.errors import ArchiveTrouble
from shipper.watchdog import Pulse

_T = TypeVar("_T")


class IoThread:
    """Runs one call after another. The end of each call is a sign of life for `pulse`."""

    def __init__(self, name: str, pulse: Pulse) -> None:
        self._pulse = pulse
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[..., _T], *arguments: Any, **named: Any) -> _T:
        """The result of `work`. Raises ArchiveTrouble where `work` raises OSError or sqlite3.Error."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*arguments, **named))
        except (OSError, sqlite3.Error) as error:
            raise ArchiveTrouble(f"the archive cannot be written: {error}") from error
        finally:
            self._pulse.sign()

    def close(self) -> None:
        """Wait until every call has returned."""
        self._thread.shutdown(wait=True)
