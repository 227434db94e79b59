"""What went wrong, in terms of what the caller may do about it.

A class's docstring is its message where no better one is given; `hint` is the next step for a person;
`exit_code` is what a program ends with (sysexits, as the peers do).
"""

EXIT_OK = 0
EXIT_OTHER = 1
EXIT_FINDINGS = 2
EXIT_USAGE = 64
EXIT_UNAVAILABLE = 69
EXIT_CONFIG = 78
EXIT_INTERRUPTED = 130


class ShipperError(Exception):
    """Something went wrong."""

    exit_code = EXIT_OTHER

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])
        self.hint = hint


class Transient(ShipperError):  # noqa: N818 - the name says what the caller may do
    """Try again later; the outcome of this attempt may be unknown."""

    exit_code = EXIT_UNAVAILABLE


class SessionLost(Transient):
    """The session with the server ended; begin another one and resend from the last contiguous ack."""


class RightMissing(SessionLost):
    """The server refuses this user a right; another session may succeed after an administrator has granted it."""

    exit_code = EXIT_OTHER


class InsecureConnection(SessionLost):
    """The settings require TLS, and the server offers none; neither the user nor any data was sent."""

    exit_code = EXIT_CONFIG


class CertificateRefused(InsecureConnection):
    """One side of a TLS connection does not accept the other side's certificate."""

    exit_code = EXIT_OTHER


class UnreadableMessage(SessionLost):
    """A stored message cannot be read. Where others can be read without it, it is reported and left out.

    `sequence`: 0 if the reply names none; `subject`: empty then, or if the reply names no subject.
    """

    def __init__(self, message: str, *, sequence: int = 0, subject: str = "") -> None:
        super().__init__(message)
        self.sequence = sequence
        self.subject = subject


class StreamFull(Transient):
    """The stream or the server is full; stop reading and retry."""


class StreamBusy(StreamFull):
    """Too many messages wait in the server to be stored in the stream; retry soon."""


class StreamMissing(Transient):
    """No stream takes this subject."""


class Permanent(ShipperError):  # noqa: N818
    """Trying again cannot help: this input fails for its own sake."""


class Poison(Permanent):
    """A message that fails for its own sake on every attempt; it goes to the dead letters."""


class Fatal(ShipperError):  # noqa: N818
    """The program cannot do its work until a person changes something."""


class ConfigError(Fatal):
    """The configuration is wrong."""

    exit_code = EXIT_CONFIG


class NothingToShip(Fatal):
    """What was to be shipped does not exist: no file matches."""

    exit_code = EXIT_FINDINGS


class UsageError(Fatal):
    """The command line is wrong."""

    exit_code = EXIT_USAGE


class Unavailable(Fatal):
    """A service that is needed does not answer."""

    exit_code = EXIT_UNAVAILABLE


class ServerTooOld(Unavailable):
    """The server is older than fshipper needs."""


class NodeAway(Unavailable):
    """The cluster has too few nodes for so many copies of a stream: one of them is away, or was a moment ago."""


class Fenced(ShipperError):  # noqa: N818
    """Another collector has the partition now; nothing is written here any more."""


class BucketRefused(ShipperError):  # noqa: N818
    """The server does not let this user have the bucket of the collectors."""


class ArchiveTrouble(Transient):
    """The archive cannot be written now; nothing is acknowledged until it can."""
