"""What a search selected, where that is less than was named, and the hosts, files and times that there are."""

import difflib
import fnmatch
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence

from consumer.archive.parts import Part
from consumer.archive.reader import ArchiveReader
from consumer.archive.selection import Globs, Wanted
from consumer.read.display import shown_time
from consumer.read.options import SearchOptions
from shipper.errors import ConfigError
from shipper.units import counted

NAMED = 8
"""Maximum names that a note lists."""
_FIELD = re.compile(r"(host|file|hostname|path)[=:](\S+)", re.IGNORECASE)


def notes(
    archive: ArchiveReader, options: SearchOptions, wanted: Wanted, parts: Sequence[Part], *, is_any: bool
) -> Iterator[str]:
    """Why less than was named is searched: each pattern without a match, a time without lines, swapped arguments.

    `parts`: the files that were searched; `is_any`: lines were found. The whole archive is listed only if a pattern or
    the time selected nothing, or nothing was found.
    """
    hosts, files = {part.host for part in parts}, {part.file for part in parts}
    idle_hosts = [each for each in options.hosts or () if not any(_is_host(each, host) for host in hosts)]
    idle_files = [each for each in options.files or () if not any(_is_file(each, file) for file in files)]
    hinted = bool(_FIELD.search(options.query))
    if parts and not (idle_hosts or idle_files or (hinted and not is_any)):
        return
    try:
        everything = archive.find(Wanted())
    except ConfigError:  # it was readable a moment ago; the search has its own message
        return
    yield from _of_patterns(wanted, everything, idle_hosts, idle_files)
    if not parts and not (idle_hosts or idle_files):
        yield _of_time(wanted, everything)
    if not is_any:
        yield from _hints(options, {part.host for part in everything})


def _of_patterns(
    wanted: Wanted, everything: Sequence[Part], idle_hosts: Iterable[str], idle_files: Iterable[str]
) -> Iterator[str]:
    known = sorted({part.host for part in everything})
    for each in idle_hosts:
        own = [part for part in everything if _is_host(each, part.host)]
        in_files = [part for part in own if wanted.has_file(part.file)]
        if not own:
            yield f"no host matches {each}; {_listed(known, 'host', each)}"
        elif in_files:
            yield f"no line of {each} is from the chosen time; {_span(in_files)}"
        elif not idle_files:
            yield f"no file of {each} matches; {_listed(sorted({part.file for part in own}), 'file', '')}"
    of_hosts = [part for part in everything if wanted.hosts.takes(part.host)] or everything
    for each in idle_files:
        own = [part for part in of_hosts if _is_file(each, part.file)]
        if own:
            yield f"no line of {each} is from the chosen time; {_span(own)}"
        else:
            yield f"no file matches {each}; {_listed(sorted({part.file for part in of_hosts}), 'file', each)}"


def _of_time(wanted: Wanted, everything: Sequence[Part]) -> str:
    if not everything:
        return "the archive has no lines yet"
    since = f" since {shown_time(wanted.since_ns)}" if wanted.since_ns else ""
    until = f" before {shown_time(wanted.until_ns)}" if wanted.until_ns is not None else ""
    return f"the archive has no lines{since}{until}; {_span(everything)}"


def _span(parts: Sequence[Part]) -> str:
    first, last = min(part.first_ns for part in parts), max(part.last_ns for part in parts)
    return f"it has lines that were stored from {shown_time(first)} to {shown_time(last)}"


def _hints(options: SearchOptions, known: Collection[str]) -> Iterator[str]:
    """What the arguments may have been meant to be."""
    query, hosts = options.query, options.hosts or ()
    for field in _FIELD.finditer(query):
        rest = " ".join(query.replace(field[0], " ").split())
        option = ["--file", field[2]] if field[1].lower() in {"file", "path"} else [field[2]]
        command = shlex.join(["fshipper", "search", rest, *option])
        yield f"{field[0]} was searched for as text; to choose a {field[1].lower().removesuffix('name')}: {command}"
    takes_no_host = hosts and not any(_is_host(each, host) for each in hosts for host in known)
    is_host = bool(query) and " " not in query and any(_is_host(query, host) for host in known)
    if takes_no_host and is_host:
        command = shlex.join(["fshipper", "search", " ".join(hosts), query])
        yield f"the query comes before the hosts: {command}"


def _listed(names: Sequence[str], kind: str, wanted: str) -> str:
    """How many there are, and some of them: the most similar ones first."""
    if not names:
        return f"the archive has no {kind}s"
    near = difflib.get_close_matches(wanted.strip("*?").lower(), names, NAMED, 0.6)
    inside = [name for name in names if wanted.strip("*?/").lower() in name.lower()] if wanted.strip("*?/") else []
    shown = list(dict.fromkeys([*near, *inside, *names]))[:NAMED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return f"{counted(len(names), kind)}: {', '.join(shown)}{more}"


def _is_host(pattern: str, host: str) -> bool:
    return fnmatch.fnmatchcase(host, pattern.strip().lower().rstrip("."))


def _is_file(pattern: str, file: str) -> bool:
    return Wanted(files=Globs((pattern,))).has_file(file)
