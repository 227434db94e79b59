"""What can happen to `fshipper browse`. `browse_searched` is its access log."""

from shipper.telemetry import Counter, logger

_SEARCHES = Counter("fshipper_browse_searches_total", "Searches of browsers that have ended", ["outcome"])
_REFUSED = Counter("fshipper_browse_refused_total", "Requests without a session, or with a wrong or used token")


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
) -> None:
    """A search of a browser has ended. The query is hashed with a key of this run: it may hold personal data."""
    _SEARCHES.labels(outcome).inc()
    logger.info(
        "browse_searched", user=user, hosts=hosts, files=files, since=since, until=until, query_hash=query_hash,
        follow=follow, outcome=outcome, lines=lines, sent_bytes=sent_bytes,
        read_bytes=read_bytes, seconds=seconds,
    )  # fmt: skip


def browse_session_opened(*, address: str) -> None:
    """A browser exchanged the one-time token for a session."""
    logger.info("browse_session_opened", address=address)


def browse_refused(*, address: str, path: str) -> None:
    """A request had no valid session or token."""
    _REFUSED.inc()
    logger.warning("browse_refused", address=address, path=path, hint="open the link that `fshipper browse` printed")
