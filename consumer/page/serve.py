"""`/` and `/events` of a collector: the page is one file, its content comes as server-sent events.

The policy lets the browser run the page's own script and style, by their hashes, and load from nowhere else.
"""

import base64
import contextlib
import functools
import hashlib
import importlib.resources
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import shipper
from consumer.fleet.look import Looking
from consumer.fleet.watching import View, Watching
from consumer.page.snapshot import About, snapshot
from shipper.events.collecting import recent_gaps
from shipper.settings import Settings
from shipper.telemetry import NO_PAGES, Answer, Page

MOST_READERS = 32
"""Maximum number of open pages; a further one is asked to come again. One client address may have 16."""
AGAIN_SECONDS = 5
STILL_SECONDS = 10.0
"""Between two signs that the connection lives, where nothing is new."""
ICON = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6" fill="#6b7785"/></svg>'


@contextlib.contextmanager
def status_page(
    settings: Settings, listen: str, *, name: str, archive: Path, status: Callable[[], Mapping[str, Any]]
) -> Iterator[Mapping[str, Page]]:
    """The pages by their paths, while a thread beside the collector looks at the fleet; none where nobody listens."""
    if not listen:
        yield NO_PAGES
        return

    def looking() -> Looking:
        return Looking(settings.nats, settings.logs.subject, name=f"consume {name} page", makes_stream=True)

    watching = Watching(looking, archive)
    about = About(name, shipper.__version__, str(archive.absolute()), time.time())
    watching.start()
    try:
        yield pages(watching, lambda view: snapshot(about, view, status(), recent_gaps()))
    finally:
        watching.end()


def pages(watching: Watching, content: Callable[[View], dict[str, Any]]) -> Mapping[str, Page]:
    """The page, its events, and its icon."""
    readers = Readers(watching, content)
    return {"/": page, "/events": readers.answer, "/favicon.ico": lambda: Answer("image/svg+xml", ICON)}


@functools.cache
def page() -> Answer:
    """The page itself."""
    text = (importlib.resources.files("consumer") / "page" / "page.html").read_text(encoding="utf-8")
    return Answer("text/html; charset=utf-8", text.encode(), headers={**ALONE, "Content-Security-Policy": policy(text)})


ALONE = {"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin"}


def policy(text: str) -> str:
    """What a browser may do with the page in `text`: its own script and style, events of its origin, and no more."""
    script, style = (_sums(text, tag) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src 'self' data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _sums(text: str, tag: str) -> str:
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    sums = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in found)
    return " ".join(f"'sha256-{each}'" for each in sums)


class Readers:
    """Those who have the page open. One snapshot is made for all of them."""

    def __init__(self, watching: Watching, content: Callable[[View], dict[str, Any]]) -> None:
        self._watching = watching
        self._content = content
        self._room = threading.BoundedSemaphore(MOST_READERS)
        self._making = threading.Lock()
        self._made: tuple[int, bytes] = (-1, b"")

    def answer(self) -> Answer:
        """The events, for one reader more; 503 where there are too many."""
        if not self._room.acquire(blocking=False):
            again = {"Retry-After": str(AGAIN_SECONDS)}
            return Answer("text/plain", b"too many have this page open\n", 503, again)
        return Answer("text/event-stream; charset=utf-8", Events(self._watching, self.event, self._room.release))

    def event(self, view: View) -> bytes:
        """`view` as an event."""
        with self._making:
            if self._made[0] != view.number:
                text = json.dumps(self._content(view), separators=(",", ":"))
                self._made = view.number, f"data: {text}\n\n".encode()
            return self._made[1]


class Events:
    """What one reader is sent: a snapshot at once, each one that follows, and signs of life in between."""

    def __init__(self, watching: Watching, event: Callable[[View], bytes], leave: Callable[[], None]) -> None:
        self._watching = watching
        self._event = event
        self._leave = leave

    def __iter__(self) -> Iterator[bytes]:
        yield f"retry: {1000 * AGAIN_SECONDS // 2}\n\n".encode()
        number = -1
        with self._watching.seen():
            while not self._watching.ended:
                view = self._watching.wait(number, STILL_SECONDS)
                yield self._event(view) if view.number != number else b": still here\n\n"
                number = view.number

    def close(self) -> None:
        """The reader is gone."""
        self._leave()
