"""What a producer says when a collector, or an audit, asks for its host."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from producer.following.source import Source
from producer.following.sources import Sources

MAX_BYTES = 512 * 1024
"""Of one answer: half of what a server takes by default."""
GONE: Mapping[str, Any] = {"v": 1, "answer": "gone"}
RESENT: Mapping[str, Any] = {"v": 1, "answer": "resent"}


def to(
    question: Mapping[str, Any], sources: Sources, spools: Mapping[str, str], place: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The answer to whatever a message asks; None: it asks nothing that is known here."""
    match question.get("ask"):
        case "resend":
            return to_missing(question, sources)
        case "marks":
            return marks(question, sources.ledger.known.values(), spools)
        case "place":
            return place()
    return None


def to_missing(question: Mapping[str, Any], sources: Sources) -> Mapping[str, Any]:
    """The answer to a collector that misses bytes; `RESENT` promises that they are sent again."""
    source, start = sources.ledger.known.get(str(question.get("source", ""))), question.get("from")
    if source is None or not isinstance(start, int):
        return GONE
    if (elsewhere := archived_elsewhere(question, source)) is not None:
        return elsewhere
    return RESENT if sources.may_be_read_again(source) else GONE


def archived_elsewhere(question: Mapping[str, Any], source: Source) -> Mapping[str, Any] | None:
    """The answer to a collector that misses bytes which another archive holds; None: they must be sent again.

    What the collector's own archive held once, it has lost: then nobody else is known to have all of it.
    """
    archive, start = question.get("archive"), question["from"]
    if not isinstance(archive, str) or not archive or source.archived_in(archive) > start:
        return None
    watermark = source.archived_elsewhere(archive)
    return {"v": 1, "answer": "archived", "watermark": watermark} if watermark > start else None


def marks(question: Mapping[str, Any], sources: Iterable[Source], names: Mapping[str, str]) -> Mapping[str, Any]:
    """How far this host shipped each of its sources, the newest first, as many as fit.

    `archived` is what the archive that asks holds, `elsewhere` what any other does; where none is named, all are meant.
    `names`: archive names by local path, of inputs without a file.
    """
    archive = str(question.get("archive", ""))
    found, size = [], 0
    for source in sorted(sources, key=lambda source: -source.mtime_ns):
        mark = {
            "source": source.id,
            "file": names.get(source.file, source.file),
            "origin": source.origin,
            "offset": source.offset,
            "size": max(source.size, source.offset),
            "archived": source.archived_in(archive) if archive else source.archived,
            "elsewhere": source.archived_elsewhere(archive) if archive else 0,
            "ended": bool(source.ended_at),
        }
        size += len(json.dumps(mark)) + 2
        if size > MAX_BYTES:
            break
        found.append(mark)
    return {"v": 1, "marks": found}
