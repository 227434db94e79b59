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

NAVIGATION = "<!--navigation-->"
SHEETS = ("base", "parts")
"""The shared style sheets; `/*base*/` in a style stands for the first one."""
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


def with_sheets(text: str) -> str:
    """`text` with the shared style sheets that it names."""
    for name in SHEETS:
        if (mark := f"/*{name}*/") in text:
            sheet = importlib.resources.files("shipper") / "pages" / f"{name}.css"
            text = text.replace(mark, sheet.read_text(encoding="utf-8"))
    return text


MAX_FILE_NAME = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def host_page_name(host: str) -> str:
    """The file of a host's report: a name that no host can choose to leave the directory or to meet another's."""
    plain = _UNSAFE.sub("_", host)[:MAX_FILE_NAME]
    if plain == host and not host.startswith("."):
        return f"{plain}.html"
    return f"{plain.lstrip('.')}-{hashlib.sha256(host.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}.html"


def icon() -> Answer:
    """The icon of the pages."""
    return Answer("image/svg+xml", _ICON)


def _sums(text: str, tag: str) -> str:
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    sums = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in found)
    return " ".join(f"'sha256-{each}'" for each in sums)
