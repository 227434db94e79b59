"""Settings -> the inputs that they ask for, each with its spool."""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from producer.inputs.addresses import parse
from producer.inputs.journald import NAME, Chosen, Journald
from producer.inputs.lifetime import Inputs, names_below
from producer.inputs.pipes import Fifo, Stdin, is_fifo
from producer.inputs.reader import Reader
from producer.inputs.spool import Spool, directory_of
from producer.inputs.syslog import Syslog
from producer.task import Task
from shipper.errors import ConfigError
from shipper.settings import ProducerSettings

STDIN = "-"


def files_of(settings: ProducerSettings) -> tuple[str, ...]:
    """The paths and globs that are files: neither standard input nor a FIFO that is named."""
    inputs = named(settings)
    return tuple(path for path in settings.files if path not in inputs)


def named(settings: ProducerSettings) -> frozenset[str]:
    """The paths that are no files: standard input and FIFOs."""
    return frozenset(path for path in settings.files if path == STDIN or _is_named_fifo(path))


def is_any(settings: ProducerSettings) -> bool:
    """Whether something that is no file is asked for."""
    return bool(named(settings) or settings.syslog or settings.journald)


def inputs_of(settings: ProducerSettings, root: Path, *, once: bool) -> Inputs:
    """The inputs, not yet started, and the spools below `root` that earlier runs left. Raises ConfigError."""
    if once:
        _check_that_all_end(settings)
    readers = list(_readers(settings, root, once=once))
    names = [reader.spool.name for reader in readers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"two inputs have the archive name {twice[0]}", hint="name each input once")
    own = {reader.spool.directory for reader in readers}
    left = [
        Spool(directory, name, limit_bytes=settings.spool)
        for directory, name in names_below(root).items()
        if directory not in own
    ]
    return Inputs(readers, left, alone=not files_of(settings))


def with_spools(task: Task, inputs: Inputs) -> Task:
    """A task that follows the spools, too."""
    following, names = task.following, inputs.names
    watched = replace(following.watched, patterns=(*following.watched.patterns, *names), own=frozenset(names))
    return replace(task, following=replace(following, watched=watched, spools=names))


def _readers(settings: ProducerSettings, root: Path, *, once: bool) -> Iterator[Reader]:
    def spool(name: str) -> Spool:
        return Spool(directory_of(root, name), name, limit_bytes=settings.spool)

    if STDIN in settings.files:
        yield Stdin(spool(_checked_name(settings)))
    for path in dict.fromkeys(map(os.path.abspath, _named_fifos(settings.files))):
        yield Fifo(spool(path), path)
    for address in map(parse, settings.syslog):
        yield Syslog(spool(address.name), address)
    if settings.journald:
        chosen = Chosen(
            style=settings.journald,
            directory=settings.journald_directory,
            match=settings.journald_match,
            start_at_end=settings.start_at_end,
            once=once,
        )
        yield Journald(spool(NAME), chosen)


def _checked_name(settings: ProducerSettings) -> str:
    name = settings.stdin_name
    if not name.startswith("/") or name.endswith("/") or "\0" in name:
        raise ConfigError(f"--name {name!r} is no absolute path", hint="for example --name /var/log/build.log")
    if name in map(os.path.abspath, files_of(settings)):
        raise ConfigError(f"--name {name} is a file that is shipped, too", hint="give standard input a name of its own")
    return name


def _check_that_all_end(settings: ProducerSettings) -> None:
    """With `once` there must be an end to wait for. Raises ConfigError."""
    for path in _named_fifos(settings.files):
        raise ConfigError(f"--once waits for the end, and FIFO {path} has none", hint=f"fshipper produce - < {path}")
    if settings.syslog:
        raise ConfigError("--once waits for the end, and --syslog has none", hint="leave out one of the two")


def _named_fifos(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if path != STDIN and _is_named_fifo(path)]


def _is_named_fifo(path: str) -> bool:
    return (not glob.has_magic(path) or os.path.lexists(path)) and is_fifo(path)
