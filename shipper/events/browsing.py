"""What can happen to `fshipper browse` and `fshipper web`. `browse_searched` is its access log."""

from shipper.events.table import info, warning
from shipper.telemetry import Counter

_SEARCHES = Counter("fshipper_browse_searches_total", "Searches of browsers that have ended", ["outcome"])
_REFUSED = Counter("fshipper_browse_refused_total", "Requests without a session, or with a wrong or used token")


@info(
    "A search of a browser has ended. The query is hashed with a key of this run: it may hold personal data.",
    _SEARCHES,
    per="outcome",
)
def browse_searched(
    *,
    user: str,
    hosts: str,
    files: str,
    since: str,
    until: str,
    query_hash: str,
    follow: bool,
    outcome: str,
    lines: int,
    sent_bytes: int,
    read_bytes: int,
    seconds: float,
) -> None: ...
@info("A browser exchanged the one-time token, or a password, for a session.")
def browse_session_opened(*, address: str) -> None: ...
@warning("A request had no valid session, token or password.", _REFUSED, hint="open a new link, or sign in")
def browse_refused(*, address: str, path: str) -> None: ...
@info("An operator removed the heartbeats of a host from the pages.")
def host_forgotten(*, user: str, host: str, known: bool) -> None: ...
