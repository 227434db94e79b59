"""Makes the inputs that the settings name, each with its spool.

It also decides what happens to their spools: inputs start before the first scan, and stop first at a drain.
"""

import contextlib
import glob
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from producer.discovery.safe_open import Links, NotFollowed
from producer.inputs.journald import NAME, Chosen, Journald
from producer.inputs.pipes import Fifo, Stdin
from producer.inputs.reader import Reader
from producer.inputs.senders import FOLDER, Sender, Senders
from producer.inputs.spool import LOG, Hint, Progress, Space, Spool, SpoolNames
from producer.inputs.syslog import Syslog, parse
from producer.model import Source
from producer.options import Following
from shipper import events
from shipper.errors import ConfigError
from shipper.layout import file_name
from shipper.settings import ProducerSettings

TEND_SECONDS = 0.1


class Inputs:
    """The inputs of one producer and every spool in its state directory, also of inputs without settings.

    They live as long as the program, through every reload. Owned by the event loop.
    """

    def __init__(
        self,
        readers: Sequence[Reader] = (),
        spools: Sequence[Spool] = (),
        *,
        names: SpoolNames | None = None,
        patterns: Sequence[str] = (),
        alone: bool = False,
    ) -> None:
        self._readers = readers
        self._left = tuple(spools)
        self.names = names if names is not None else SpoolNames()
        self._patterns = patterns  # of spools that begin later
        for spool in self._spools:
            self.names.add(spool)
        self.end_the_program = alone and bool(readers) and all(reader.ends for reader in readers)
        self.stopping = False
        self._tended_at = 0.0
        for spool in spools:
            spool.finish()  # no input writes to it in this run

    @property
    def _spools(self) -> tuple[Spool, ...]:
        return (*(spool for reader in self._readers for spool in reader.spools), *self._left)

    def followed_with(self, following: Following) -> Following:
        """The same with the spools of now and of later, too."""
        return with_spools(following, self.names, self._patterns)

    def start(self) -> None:
        """Begin to read. Raises ConfigError: something cannot be opened; the others run until `close`."""
        for reader in self._readers:
            reader.start()

    def hint_to(self, hint: Hint) -> None:
        """Set the function that is called when a spool grew."""
        for spool in self._spools:
            spool.hint_to(hint)

    def stop(self) -> None:
        """Stop reading. What is spooled is still shipped. Does not wait."""
        self.stopping = True
        for reader in self._readers:
            reader.stop()

    def close(self) -> None:
        """Stop, and close every file."""
        self.stop()
        for reader in self._readers:
            reader.join()
        for spool in self._spools:
            spool.close()

    def tend(self, progress: Callable[[], Progress], release: Callable[[Source], None]) -> None:
        """Rotate and delete what is due, now and then. Raises Fatal: an input could not go on."""
        for reader in self._readers:
            reader.check()
        if self._spools and time.monotonic() >= self._tended_at + TEND_SECONDS:
            self._tended_at = time.monotonic()
            now = progress()
            for spool in self._spools:
                try:
                    spool.tend(now, release)
                except OSError as error:  # no space or permission: the next scan tries again
                    events.spool_failed(input=spool.name, error=error.strerror or str(error))
            for reader in self._readers:
                reader.end_idle(now)
            self._tended_at = max(self._tended_at, time.monotonic() + 9 * (time.monotonic() - self._tended_at))

    def is_over(self, progress: Callable[[], Progress]) -> bool:
        """Whether every input has ended and all of it is acknowledged."""
        now = progress() if self._spools else None
        return now is None or all(spool.is_over(now) for spool in self._spools)

    def is_settled(self, progress: Callable[[], Progress]) -> bool:
        """Whether all that was spooled is acknowledged, save for a line that its writer has yet to end."""
        if any(reader.is_reading for reader in self._readers):
            return False
        now = progress() if self._spools else None
        return now is None or all(spool.is_settled(now) for spool in self._spools)


def names_below(root: Path) -> dict[Path, str]:
    """The spools below `root`, with the archive name of each."""
    return {path.parent: os.fsdecode(path.read_bytes()) for path in sorted(root.glob("*/name"))}


STDIN = "-"


def files_of(settings: ProducerSettings) -> tuple[str, ...]:
    """The paths and globs that are files: neither standard input nor a FIFO that is named."""
    inputs = named(settings)
    return tuple(path for path in settings.files if path not in inputs)


def named(settings: ProducerSettings) -> frozenset[str]:
    """The paths that are no files: standard input and FIFOs."""
    return frozenset(_named_fifos(settings)) | (frozenset(settings.files) & {STDIN})


def is_any(settings: ProducerSettings) -> bool:
    """Whether the settings name an input that is not a file."""
    return bool(named(settings) or settings.syslog or settings.journald)


_SENDERS = {"none": "", "line": ", the sender's address in front of each line", "file": ", a file for each sender"}


def inputs_named(settings: ProducerSettings) -> list[str]:
    """The inputs that are no files, in words. Raises ConfigError: an address is none."""
    files = files_of(settings)
    named = [path for path in settings.files if path not in files]
    for address in settings.syslog:
        parse(address)
    return [
        *(f"standard input as {settings.stdin_name}" if path == STDIN else f"FIFO {path}" for path in named),
        *(f"syslog on {address}{_SENDERS[settings.syslog_sender]}" for address in settings.syslog),
        *([f"the journal as {settings.journald}"] if settings.journald else []),
    ]


def inputs_of(settings: ProducerSettings, root: Path, *, once: bool) -> Inputs:
    """The inputs, not yet started, and the spools below `root` that earlier runs left. Raises ConfigError."""
    _report_refused_fifos(settings)
    if once and (endless := _named_fifos(settings)):
        hint = f"fshipper produce - < {endless[0]}"
        raise ConfigError(f"--once waits for the end, and FIFO {endless[0]} has none", hint=hint)
    if once and settings.syslog:
        raise ConfigError("--once waits for the end, and --syslog has none", hint="leave out one of the two")
    spools = _Spools(settings, root)
    readers = list(_readers(settings, spools, once=once))
    listed = [reader.spool.name for reader in readers]
    twice = sorted({name for name in listed if listed.count(name) > 1})
    if twice:
        raise ConfigError(f"two inputs have the archive name {twice[0]}", hint="name each input once")
    begins_later = settings.syslog_sender == Sender.FILE.value and settings.syslog
    patterns = [os.path.join(glob.escape(str(root)), "*", LOG)] if begins_later else []
    return Inputs(readers, spools.left(), names=spools.names, patterns=patterns, alone=not files_of(settings))


class _Spools:
    """Opens the spools below a directory, and knows which of them are open."""

    def __init__(self, settings: ProducerSettings, root: Path) -> None:
        self._limit_bytes = settings.spool
        self._root = root
        self._opened: set[Path] = set()
        self.names = SpoolNames()

    def open(self, name: str, space: Space | None = None) -> Spool:
        """The spool of `name`."""
        spool = Spool(self._root / file_name(name), name, limit_bytes=self._limit_bytes, space=space)
        self._opened.add(spool.directory)
        self.names.add(spool)
        return spool

    def left(self, beginning: str = "", space: Space | None = None) -> list[Spool]:
        """Those of earlier runs that are not open yet and whose names begin so."""
        below = names_below(self._root).items()
        return [
            self.open(name, space)
            for directory, name in below
            if directory not in self._opened and name.startswith(beginning)
        ]

    def listener(self, settings: ProducerSettings, text: str) -> Syslog:
        """A listener, with a spool for each sender if the settings request it. Raises ConfigError."""
        address, sender = parse(text), Sender(settings.syslog_sender)
        space = Space(settings.spool)
        spool, senders = self.open(address.name, space), None
        if sender is Sender.FILE and not address.path:
            left = self.left(address.name + FOLDER, space)
            senders = Senders(address.name, lambda name: self.open(name, space), self.names.remove, left)
        return Syslog(spool, address, sender=sender, senders=senders)


def with_spools(following: Following, names: Mapping[str, str], patterns: Sequence[str] = ()) -> Following:
    """The same with the spools, too. `names`: archive names by the local path of the spool.

    `patterns`: where more of them will be, which `names` has then.
    """
    watched = replace(following.watched, patterns=(*following.watched.patterns, *names, *patterns), own=names)
    return replace(following, watched=watched, spools=names)


def _readers(settings: ProducerSettings, spools: _Spools, *, once: bool) -> Iterator[Reader]:
    if STDIN in settings.files:
        yield Stdin(spools.open(_checked_name(settings)))
    for path in dict.fromkeys(map(os.path.abspath, _named_fifos(settings))):
        yield Fifo(spools.open(path), path, Links(settings.link_roots))
    for address in settings.syslog:
        yield spools.listener(settings, address)
    if settings.journald:
        chosen = Chosen(
            style=settings.journald,
            directory=settings.journald_directory,
            match=settings.journald_match,
            start_at_end=settings.start_at_end,
            once=once,
        )
        yield Journald(spools.open(NAME), chosen)


def _checked_name(settings: ProducerSettings) -> str:
    name = settings.stdin_name
    if not name.startswith("/") or name.endswith("/") or "\0" in name:
        raise ConfigError(f"--name {name!r} is no absolute path", hint="for example --name /var/log/build.log")
    if name in map(os.path.abspath, files_of(settings)):
        raise ConfigError(f"--name {name} is a file that is shipped, too", hint="give standard input a name of its own")
    return name


def _named_fifos(settings: ProducerSettings) -> list[str]:
    """The paths at which a FIFO is, to which no link leads that another user can have made."""
    found = []
    for path in settings.files:
        if path != STDIN and (not glob.has_magic(path) or os.path.lexists(path)):
            with contextlib.suppress(OSError):  # NotFollowed is one
                if stat.S_ISFIFO(Links(settings.link_roots).status(os.path.abspath(path)).st_mode):
                    found.append(path)
    return found


def _report_refused_fifos(settings: ProducerSettings) -> None:
    """Report the FIFOs that are not read, because another user can have made the link to them."""
    for path in settings.files:
        try:
            if path != STDIN and stat.S_ISFIFO(os.stat(path).st_mode):
                Links(settings.link_roots).status(os.path.abspath(path))
        except NotFollowed as refused:
            events.link_not_followed(path=path, reason=refused.reason)
        except OSError:
            continue  # it is gone
