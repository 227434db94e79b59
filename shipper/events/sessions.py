"""What can happen to both programs."""

from shipper.events.table import info, is_due, warning
from shipper.telemetry import Counter, logger
from shipper.units import printable

_CONTROL_IGNORED = Counter(
    "fshipper_control_ignored_total", "Control messages that were neither obeyed nor answered", ["reason"]
)
_SESSIONS = Counter("fshipper_sessions_ended_total", "Sessions with the server that ended in trouble", ["program"])
_UNREADABLE_MESSAGES = Counter(
    "fshipper_unreadable_messages_total", "Stored messages that could not be read and were left out"
)
_UNREADABLE_OF_HOST = Counter(
    "fshipper_unreadable_host_messages_total",
    "Stored messages of a host that could not be read and were left out; empty: the host is not known",
    ["host"],
)
MAX_UNREADABLE_HOSTS = 1000
"""Hosts with a count of their own: any client of a server without accounts chooses names."""
_UNREADABLE_HOSTS: set[str] = set()
_REFUSED_REQUESTS = Counter(
    "fshipper_refused_requests_total", "HTTP requests by a name that is not allowed (421) or of another origin (403)"
)


@warning(
    "An HTTP request had a `Host` that is neither the machine's nor allowed: a proxy, a service name, or an attack.",
    _REFUSED_REQUESTS,
    hint="SHIPPER_ALLOWED_HOSTS allows names",
)
def host_refused(*, name: str) -> None: ...
@warning(
    "A page of another origin sent a request: a dashboard that embeds the page, or an attack.",
    _REFUSED_REQUESTS,
    hint="open the page by its own address",
)
def origin_refused(*, origin: str) -> None: ...


def session_ended(*, program: str, error: str, hint: str, retry_in: float) -> None:
    """A session with the server ended; another one is tried."""
    _SESSIONS.labels(program).inc()
    fields = {"hint": hint} if hint else {}
    logger.warning("session_ended", error=error, retry_in=round(retry_in, 2), **fields)


def control_ignored(*, subject: str, reason: str) -> None:
    """A control message was ignored; logged at most once a minute for each reason."""
    _CONTROL_IGNORED.labels(reason).inc()
    if is_due("control_ignored", reason):
        logger.warning("control_ignored", subject=subject, reason=reason)


def message_unreadable(*, stream: str, sequence: int, host: str, error: str) -> None:
    """A stored message cannot be read; it is left out. `sequence`: 0 if it is not known; `host`: empty then."""
    _UNREADABLE_MESSAGES.inc()
    if host in _UNREADABLE_HOSTS or len(_UNREADABLE_HOSTS) < MAX_UNREADABLE_HOSTS:
        _UNREADABLE_HOSTS.add(host)
        _UNREADABLE_OF_HOST.labels(printable(host)).inc()
    logger.warning("message_unreadable", stream=stream, sequence=sequence, host=host, error=error)


def stream_full(*, error: str, hint: str, retry_in: float) -> None:
    """The stream is full; refused messages are sent again in the same session."""
    logger.warning("stream_full", error=error, retry_in=round(retry_in, 2), hint=hint)


def stream_busy(*, error: str, hint: str) -> None:
    """The server's queue of the stream is full; refused messages are sent again soon. Logged at most once a minute."""
    if is_due("stream_busy", error):
        logger.warning("stream_busy", error=error, hint=hint)


@info("A session with the server works.")
def session_begun(*, program: str, subject: str) -> None: ...
@info("A program ended; `left` blocks are sent or read again by the next run.")
def drained(*, program: str, left: int) -> None: ...
@warning("A program ended before a session worked: it sent, or read, nothing.")
def ended_without_session(*, program: str, reason: str) -> None: ...


def progress_stopped(*, what: str, seconds: float) -> None:
    """A loop hangs: the service manager no longer gets notifications of progress and will end the program."""
    logger.error("progress_stopped", what=what, seconds=round(seconds), hint="the stacks of all threads follow SIGABRT")


def collector_reloaded() -> None:
    """SIGHUP, and the collector goes on under the new settings."""
    logger.info("settings_reloaded")


@info("A producer met a partition without a stream, and it was made from the template.")
def stream_served(*, partition: int, host: str) -> None: ...
@warning("A producer requests a stream that must not exist.")
def stream_refused(*, partition: object, host: str, reason: str) -> None: ...
