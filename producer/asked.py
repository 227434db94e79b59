"""What collectors tell and ask, and the acknowledged bytes that they want again."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from producer import answers, receipts
from producer.following.sources import Sources
from producer.window import Window


class Asked:
    """Where sources are to go back to; that is done when nothing is being read. Owned by the pipeline."""

    def __init__(self, rouse: Callable[[], None], doubt: Callable[[Sequence[str]], None] = lambda _: None) -> None:
        self._rouse = rouse
        self._doubt = doubt
        self._back: dict[str, int] = {}

    @property
    def is_any(self) -> bool:
        """Whether a source is to go back."""
        return bool(self._back)

    def hear(
        self, message: Mapping[str, Any], sources: Sources, window: Window, spools: Mapping[str, str],
        place: Callable[[], Mapping[str, Any]],
    ) -> Mapping[str, Any] | None:  # fmt: skip
        """A collector says what it has, or asks; the answer."""
        if (told := receipts.read(message)) is not None:
            self._doubt(sources.heard(told))
        answer = answers.to(message, sources, window, spools, place)
        if answer in (answers.RESENT, answers.LASTING):
            source, start = sources.ledger.known[message["source"]], message["from"]
            if not answers.is_under_way(source, start, window):
                self.go_back(source.id, start)
        return answer

    def go_back(self, source: str, start: int) -> None:
        """A source is to be sent again from `start` on."""
        self._back[source] = min(start, self._back.get(source, start))
        self._rouse()

    def take(self) -> dict[str, int]:
        """By source, from where each is to be sent again; they count as done."""
        back, self._back = self._back, {}
        return back
