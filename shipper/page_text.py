"""Pages as one file each: the shared style sheet, the navigation, and a policy that allows exactly their own script.

A page is `page.html` of a package. `/*base*/` in its style stands for the shared style sheet, `<!--navigation-->` for
the links to the other pages. Both also belong to the report, whose files have no server.
"""

import base64
import functools
import hashlib
import importlib.resources
import re

from shipper.http_endpoints import Answer

BASE, NAVIGATION = "/*base*/", "<!--navigation-->"
_ICON = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6" fill="#6b7785"/></svg>'
)
HEADERS = {"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin"}


@functools.cache
def page(package: str, name: str = "page.html", navigation: str = "") -> Answer:
    """A page. A browser may use its own script and style, connect to its origin, and do no more."""
    text = (importlib.resources.files(package) / name).read_text(encoding="utf-8")
    text = text.replace(BASE, base_style()).replace(NAVIGATION, navigation)
    script, style = (_sums(text, tag) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {script or NONE}; style-src {style}; connect-src 'self'; img-src 'self' data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Answer("text/html; charset=utf-8", text.encode(), headers=HEADERS | {"Content-Security-Policy": policy})


NONE = "'none'"


def base_style() -> str:
    """The style sheet that all pages share."""
    return (importlib.resources.files("shipper") / "pages" / "base.css").read_text(encoding="utf-8")


def icon() -> Answer:
    """The icon of the pages."""
    return Answer("image/svg+xml", _ICON)


def _sums(text: str, tag: str) -> str:
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    sums = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in found)
    return " ".join(f"'sha256-{each}'" for each in sums)
