"""Pages as one file each: the shared style sheet, the navigation, and a policy that allows exactly their own script.

A page is `page.html` of a package. `/*base*/` in its style stands for colours, type and spaces, `/*parts*/` for the
parts made of them, `<!--navigation-->` for the links to the other pages. The files of the report have the same.
"""

import base64
import functools
import hashlib
import importlib.resources
import re

from shipper.http_endpoints import Answer
from shipper.page_sheets import with_sheets

NAVIGATION = "<!--navigation-->"
_ICON = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6" fill="#6b7785"/></svg>'
)
HEADERS = {"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin"}


@functools.cache
def page(package: str, name: str = "page.html", navigation: str = "") -> Answer:
    """A page. A browser may use its own script and style, connect to its origin, and do no more."""
    text = (importlib.resources.files(package) / name).read_text(encoding="utf-8")
    text = with_sheets(text).replace(NAVIGATION, navigation)
    script, style = (_sums(text, tag) for tag in ("script", "style"))
    policy = (
        f"default-src 'none'; script-src {script or NONE}; style-src {style}; connect-src 'self'; img-src 'self' data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Answer("text/html; charset=utf-8", text.encode(), headers=HEADERS | {"Content-Security-Policy": policy})


NONE = "'none'"


def icon() -> Answer:
    """The icon of the pages."""
    return Answer("image/svg+xml", _ICON)


def _sums(text: str, tag: str) -> str:
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    sums = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in found)
    return " ".join(f"'sha256-{each}'" for each in sums)
