"""The JetStream domain of an edge site: one token of the subjects under which the centre reaches it. Pure."""

import re

from shipper.errors import UsageError

CENTRE = "hub"
"""The domain of the centre in deploy/nats/edge/hub.conf."""
_DOMAIN = re.compile(r"[A-Za-z0-9_-]+")
_IN_CONFIGURATION = re.compile(r"^[^#\n]*\bdomain\s*[:=]?\s*[\"']?([A-Za-z0-9_-]+)", re.MULTILINE)


def checked_domain(domain: str, *, centre: str = "") -> str:
    """`domain`, if a site may have it. `centre`: the domain of the centre's server, where it is known.

    Raises UsageError: it is empty, not one token of a subject, or the domain of the centre.
    """
    if not _DOMAIN.fullmatch(domain):
        raise UsageError(
            f"{domain!r} cannot be the JetStream domain of a site: it has letters, digits, - and _ only",
            hint="write the `domain` of the site's nats-server.conf, for example edge1",
        )
    if domain in {CENTRE, centre}:
        raise UsageError(
            f"{domain} cannot be the JetStream domain of a site: it is the domain of the centre",
            hint="set another `domain` in the site's nats-server.conf, for example edge1",
        )
    return domain


def domain_in(configuration: str) -> str:
    """The JetStream domain that a server's configuration sets; empty: none."""
    found = _IN_CONFIGURATION.search(configuration)
    return found[1] if found else ""
