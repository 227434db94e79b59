"""The link that opens a session once: on the terminal, else in a file that only the program's user can read."""

import contextlib
import html
import os
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path

from shipper.durable_files import replace_file

HINT = "The link opens one session within ten minutes. SIGHUP makes another link."


@contextlib.contextmanager
def link_shown(program: str) -> Iterator[Callable[[str], None]]:
    """A function that shows a link of `fshipper PROGRAM`.

    What is not a terminal may be the journal, which other users read, also weeks later. The file is `link` in
    RUNTIME_DIRECTORY (systemd), else in a directory of its own, and is removed at the end.
    """
    if sys.stdout.isatty():
        yield lambda link: print(f"fshipper {program}: {link}\n{HINT}", flush=True)
        return
    with contextlib.ExitStack() as made:
        directory = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
        own = directory or made.enter_context(tempfile.TemporaryDirectory(prefix=f"fshipper-{program}-"))
        path = Path(own) / "link"
        made.callback(path.unlink, missing_ok=True)

        def write(link: str) -> None:
            replace_file(path, f"{link}\n".encode(), mode=0o600)
            print(f"fshipper {program}: the link is in {path}\n{HINT}", flush=True)

        yield write


@contextlib.contextmanager
def opened_in_browser(link: str) -> Iterator[None]:
    """Open `link` in a browser of this machine by a private file: its arguments can be read by every user."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="fshipper-link-") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(link, quote=True)}">')
        file.flush()
        webbrowser.open(Path(file.name).as_uri())
        yield
