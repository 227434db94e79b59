"""What pages of programs and files of the report share: style sheets, and the name of the page of a host. Pure."""

import hashlib
import importlib.resources
import re

SHEETS = ("base", "parts")
"""The shared style sheets; `/*base*/` in a style stands for the first one."""


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
