"""The display of a demo: live on a terminal, plain lines elsewhere."""

import time
from collections import deque
from collections.abc import Collection
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from deploy.demo.processes import Program

PICTURE_SECONDS = 0.12
PLAIN_SECONDS = 5.0
"""Between two lines of progress where there is no terminal."""
EVENTS_SHOWN = 8
LINES_ABOVE_EVENTS = 21
"""Of the picture: on a low terminal fewer events are shown, so that its frame stays whole."""
BAR_WIDTH = 46


class DemoDisplay:
    """The steps of the demo, the progress of the bytes, the state of the programs, and the latest events."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._began = time.monotonic()
        self._steps: list[tuple[str, float, float | None]] = []
        self._events: deque[str] = deque(maxlen=EVENTS_SHOWN)
        self._programs: Collection[Program] = ()
        self._written = self._archived = self._planned = 0
        self._next = 0.0
        self._live = (
            Live(console=console, auto_refresh=False, get_renderable=self._picture) if console.is_terminal else None
        )

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        self._draw(self._title)
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.refresh()
            self._live.stop()

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._began

    def step(self, title: str) -> None:
        """Begin a step; the one before is done."""
        self.done()
        self._steps.append((title, self.seconds, None))
        self._draw(f"{self._clock()}  {title} ...")

    def done(self) -> None:
        """The current step is done."""
        if self._steps and self._steps[-1][2] is None:
            title, began, _ = self._steps.pop()
            self._steps.append((title, began, self.seconds - began))

    def event(self, text: str) -> None:
        """Show an event."""
        self._events.append(f"[dim]{self._clock()}[/]  {escape(text)}")
        self._draw(f"{self._clock()}    {text}")

    def show_programs(self, programs: Collection[Program], planned: int) -> None:
        """The programs to show, and how many bytes are going to be written."""
        self._programs, self._planned = programs, planned

    def breathe(self) -> None:
        """Draw if it is time; for steps without progress."""
        if self._live and time.monotonic() >= self._next:
            self._next = time.monotonic() + PICTURE_SECONDS
            self._live.refresh()

    def progress(self, written: int, archived: int) -> None:
        """How many bytes were written, and how many are in the archive. It draws only when the interval has passed."""
        self._written, self._archived = written, archived
        self.breathe()
        if self._live is None and written and time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_SECONDS
            self._draw(f"{self._clock()}    {size(written)} written, {size(archived)} in the archive")

    def _clock(self) -> str:
        return f"{self.seconds:5.1f} s"

    def _draw(self, text: str) -> None:
        """Refresh the picture; where there is none, print `text`."""
        if self._live is not None:
            self._live.refresh()
        else:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _picture(self) -> RenderableType:
        parts: list[RenderableType] = [self._step_lines()]
        if self._planned:
            parts += [Text(), self._bars(), Text(), self._table()]
        if self._events:
            room = max(2, self._console.height - LINES_ABOVE_EVENTS)
            parts += [Text(), Text.from_markup("\n".join(list(self._events)[-room:]), overflow="ellipsis")]
        title = f"[bold]{escape(self._title)}[/]  [dim]{self._clock()}[/]"
        return Panel(Group(*parts), title=title, title_align="left", border_style="cyan", padding=(1, 2))

    def _step_lines(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        for title, began, took in self._steps:
            if took is None:
                grid.add_row("[yellow]▶[/]", f"[bold]{escape(title)}[/]", f"[yellow]{self.seconds - began:5.1f} s[/]")
            else:
                grid.add_row("[green]✔[/]", escape(title), f"[dim]{took:5.1f} s[/]")
        return grid

    def _bars(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        total = max(self._planned, self._written)
        for name, octets, style in (("written", self._written, "cyan"), ("in the archive", self._archived, "green")):
            bar = ProgressBar(total, min(octets, total), BAR_WIDTH, complete_style=style, finished_style=style)
            grid.add_row(name, bar, f"{size(octets):>9}", f"[dim]{min(octets, total) / total:4.0%}[/]")
        return grid

    def _table(self) -> RenderableType:
        table = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
        for name in ("program", "state"):
            table.add_column(name)
        for name in ("process", "kill -9", "worked again after"):
            table.add_column(name, justify="right")
        for program in self._programs:
            back = "" if program.back_after is None else f"{program.back_after:.1f} s"
            kills = f"[red]{program.kills}[/]" if program.kills else "[dim]0[/]"
            table.add_row(program.name, _state(program), str(program.process.pid), kills, back)
        return table


def _state(program: Program) -> str:
    if program.stopping:
        return "[dim]● stopped[/]" if not program.running else "[yellow]● stopping[/]"
    return "[green]● works[/]" if program.up else "[yellow]● starts[/]"


def size(octets: int) -> str:
    """`octets` for people: 12.3 MB."""
    return f"{octets / 1e6:.1f} MB"
