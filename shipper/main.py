"""The `fshipper` command: finds its verbs by entry points, imports a program only to run it, ends with its code.

The console script imports this module before anything can mind a signal, so it imports as little as it can: `main` sets
the handler for Ctrl-C first, and only then is the rest imported.
"""

import errno
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, Any

from shipper.errors import EXIT_CONFIG, EXIT_INTERRUPTED, EXIT_OK, EXIT_OTHER, EXIT_USAGE, ShipperError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "fshipper.commands"

GROUPS = {
    "The first day": {
        "up": "Ship, archive and search the logs of this machine, with one command",
        "down": "End what `fshipper up` runs, and with --remove its data",
        "demo": "See it all work, with kills on the way, in two minutes",
        "migrate": "Write the configuration of another shipper as one of fshipper",
    },
    "Read logs": {
        "search": "Find lines of all hosts and days in the archive",
        "tail": "Show the logs of all hosts merged, and follow new lines",
        "browse": "Search and follow the logs of all hosts in a browser",
        "web": "Serve status, search and reports to a team",
        "report": "Make the tables and the report of a day (Spark)",
        "replay": "Send archived lines again: to a subject, a file or the terminal",
    },
    "What is wrong?": {
        "status": "See every host, how it is and why, and how far each partition is read",
        "explain": "Show how far a file or a line of a host is, and what to do",
        "wait": "End when everything up to a time is in the archive",
        "audit": "Verify the archive: what is missing, damaged or doubled",
        "validate": "Check settings and files, and with --connect the server",
        "dlq": "List dead letters, requeue or drop them",
    },
    "Run the programs": {
        "install": "Write the systemd units and the configuration of this machine",
        "server": "Run a NATS server with JetStream on this machine",
        "produce": "Ship log files of this host to the streams",
        "consume": "Write what is in the streams to per-host files",
        "partition": "Plan, create, watch, move, save and mend the streams",
        "redact": "Black out text in the archive, and record it",
    },
    "Many hosts": {
        "fleet": "Make a site, and tokens with which hosts join it",
        "join": "Join a site: key, configuration, start",
        "leave": "Leave the site: the key of this host ends",
        "hosts": "Give hosts keys and least rights, and take them back",
        "capacity": "Compute disk, memory, cores and streams for a number of hosts",
    },
    "This command": {
        "completion": "Print the completion for bash, zsh or fish",
        "version": "Print the version",
    },
}
SUMMARIES = {verb: summary for verbs in GROUPS.values() for verb, summary in verbs.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb and end the process with its exit code.

    SIGINT ends the process with 130, also where it was ignored before (a shell script ignores it for what it starts
    with `&`). While modules are imported, and after the verb has ended, it ends the process immediately; in between the
    verb decides, or a KeyboardInterrupt closes what is open.
    """
    signal.signal(signal.SIGINT, _end_at_once)
    given = list(sys.argv[1:] if arguments is None else arguments)
    code = EXIT_OK
    try:
        _open_closed_streams()
        code = run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()  # `| head` closed the pipe: not an error
    except OSError as error:
        if error.errno not in FAULTS:
            raise
        code, hint = FAULTS[error.errno]
        _discard_output()
        complain(ShipperError(f"{error.filename or 'cannot write'}: {error.strerror}", hint=hint))
    except KeyboardInterrupt:  # a moment before or after the verb ran
        code = EXIT_INTERRUPTED
    if code == EXIT_INTERRUPTED:
        _end_at_once()  # everything is closed; the interpreter would wait for threads that still work
    sys.exit(code)


_NO_SPACE = (EXIT_OTHER, "free space on its file system, and run the command again")
_NO_RIGHT = (EXIT_CONFIG, "run the command as a user with the rights, or name another path")
_NO_SUCH_PATH = (EXIT_CONFIG, "name another path")
FAULTS = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.EROFS: _NO_RIGHT,
    errno.ENOTDIR: _NO_SUCH_PATH,
    errno.EISDIR: _NO_SUCH_PATH,
    errno.ELOOP: _NO_SUCH_PATH,
    errno.ENAMETOOLONG: _NO_SUCH_PATH,
    errno.EIO: (EXIT_OTHER, "a disk fails: see the log of the kernel (dmesg)"),
}
"""Faults of disks, rights and paths that no verb reported itself: the exit code and the next step."""


def _open_closed_streams() -> None:
    """Give a process that was started without standard output or error (`>&-`) one that discards everything."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _discard_output() -> None:
    """What is still in the buffer of standard output goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_at_once(_number: int = 0, _frame: FrameType | None = None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a reader that does not read may keep us in `flush`
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, RuntimeError, ValueError, AttributeError):  # closed, full, absent, or in use right now
            continue
    os._exit(EXIT_INTERRUPTED)


def entry_points(group: str) -> "Iterable[EntryPoint]":
    """The entry points of `group`; what knows them takes a while to import."""
    from importlib import metadata  # noqa: PLC0415

    return metadata.entry_points(group=group)


def run(given: Sequence[str]) -> int:
    """The exit code of `fshipper given...`; messages go to stderr."""
    if len(given) > 1 and given[0] == "help":
        return run([*given[1:], "--help"])
    if not given or given[0] in {"-h", "--help", "--help-all", "help"}:
        sys.stdout.write(_overview())
        return EXIT_OK if given else EXIT_USAGE
    if given[0] in {"version", "--version"}:
        import shipper  # noqa: PLC0415

        sys.stdout.write(f"fshipper {shipper.__version__}\n")
        return EXIT_OK
    verbs = {entry.name: entry for entry in entry_points(group=GROUP)}
    if given[0] not in verbs:
        from shipper.nearest import did_you_mean  # noqa: PLC0415

        meant = did_you_mean(given[0], [*verbs, "version"], before="fshipper ")
        sys.stderr.write(f"error: unknown command {given[0]!r}\nhint: {meant}fshipper --help lists them\n")
        return EXIT_USAGE
    return _run_verb(verbs[given[0]], given[1:])


def _run_verb(entry: "EntryPoint", rest: Sequence[str]) -> int:
    import typer  # noqa: PLC0415 - half of the time that --help takes

    if _has_secret(rest):
        sys.stderr.write(
            "warning: every user of this machine can read the user and the password in --url (ps, /proc)\n"
            "hint: put the URL into NATS_URL in an environment file of mode 0600, or use NATS_CREDS or NATS_NKEY\n"
        )
    outside = signal.getsignal(signal.SIGINT)
    try:
        command = _command(entry)
        if outside is _end_at_once:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        result = command.main(list(rest), prog_name=f"fshipper {entry.name}", standalone_mode=False)
    except ShipperError as error:
        complain(error)
        return error.exit_code
    except typer.Exit as ended:
        return ended.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_OK
    except Exception as error:  # noqa: BLE001 - typer keeps its click private; see _wrong_usage
        # pydantic wraps an interrupt that comes while it builds a validator
        return EXIT_INTERRUPTED if "KeyboardInterrupt" in str(error) else _wrong_usage(error)
    finally:
        if outside is _end_at_once:
            signal.signal(signal.SIGINT, _end_at_once)
    return result if isinstance(result, int) else EXIT_OK


def _has_secret(arguments: Sequence[str]) -> bool:
    """Whether a --url on the command line holds a user, a password or a token."""
    given = [url for option, url in pairwise(arguments) if option == "--url"]
    given += [option.partition("=")[2] for option in arguments if option.startswith("--url=")]
    return any("@" in url.rpartition("://")[2] for urls in given for url in urls.split(","))


def _command(entry: "EntryPoint") -> Any:
    """The verb's command. The objects of its modules are never garbage, so the collector does not scan them."""
    import gc  # noqa: PLC0415

    import typer  # noqa: PLC0415

    gc.disable()
    try:
        app: typer.Typer = entry.load()
        return typer.main.get_command(app)
    finally:
        gc.freeze()
        gc.enable()


def _wrong_usage(error: Exception) -> int:
    """Command line errors of typer as one message and our exit code; anything else is a defect and keeps its trace."""
    show = getattr(error, "format_message", None)
    if show is None or not hasattr(error, "exit_code"):
        raise error
    from shipper.help.corrections import correction  # noqa: PLC0415 - only after a mistake

    message, hint = correction(error, show())
    sys.stderr.write(f"error: {message}\nhint: {hint}\n")
    return EXIT_USAGE if error.exit_code else EXIT_OTHER


def complain(error: ShipperError) -> None:
    """Write to stderr what is wrong and what to do next."""
    for line in str(error).splitlines():
        sys.stderr.write(f"error: {line}\n")
    if error.hint:
        sys.stderr.write(f"hint: {error.hint}\n")


def _overview() -> str:
    """The help without a command: every command in its group; those of other packages are in the last one."""
    installed = {entry.name for entry in entry_points(group=GROUP)} | {"version"}
    groups = [{verb: text for verb, text in verbs.items() if verb in installed} for verbs in GROUPS.values()]
    groups[-1] |= dict.fromkeys(sorted(installed - SUMMARIES.keys()), "")
    sections = "".join(
        f"{title}:\n" + "".join(f"  {verb:<11} {text}".rstrip() + "\n" for verb, text in verbs.items()) + "\n"
        for title, verbs in zip(GROUPS, groups, strict=True)
        if verbs
    )
    return (
        "usage: fshipper COMMAND [OPTIONS]\n\n"
        f"{sections}fshipper COMMAND --help shows examples and the usual options, --help-all all of them.\n"
    )
