"""The pages and sheets in the directory of the reports, read as this program's user, by names that reports have."""

import contextlib
import html
import re
from pathlib import Path
from typing import NamedTuple

from shipper.http_endpoints import Answer
from shipper.page_sheets import host_page_name

MOST_BYTES = 64 * 1024**2
"""Size of a file that is sent."""
HEAD_BYTES = 4 * 1024
"""The policy of a page is within its first bytes."""
MOST_DAYS = 60
"""Maximum days whose pages are checked for a host, the newest first."""
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_DATE = r"(?:latest|\d{4}-\d\d-\d\d)"
_PAGE = re.compile(
    rf"index\.html|week-\d{{4}}-W\d\d\.html|{_DATE}/report\.html|{_DATE}/host/[^/\x00-\x1f]{{1,250}}\.html"
)
_SHEET = re.compile(rf"{_DATE}/report\.(?:json|txt)|week-\d{{4}}-W\d\d\.json|csv/{_DATE}/[a-z_]{{1,40}}\.csv")
_KINDS = {"json": "application/json", "txt": "text/plain; charset=utf-8", "csv": "text/csv; charset=utf-8"}
_POLICY = re.compile(rb"""<meta http-equiv="Content-Security-Policy" content="([A-Za-z0-9 ;:'+/=_&#-]{1,1000})">""")
ALONE, SERVED = b'<body class="alone">', b"<body>"
"""A page in a file shows no navigation to the other pages; a page that is served does."""
STRICTEST = "default-src 'none'; style-src 'unsafe-inline'"
"""The policy of a page that states none: it has no script."""


class UnreadableFile(NamedTuple):
    """A file that cannot be sent, and why."""

    path: Path
    why: str
    is_missing: bool


class ReportFiles:
    """The directory of the reports."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def answer(self, name: str) -> Answer | UnreadableFile | None:
        """The file `name` of the directory; None: no report has a file of this name."""
        wanted = name or "index.html"
        is_page = _PAGE.fullmatch(wanted) is not None
        if not is_page and not _SHEET.fullmatch(wanted):
            return None
        path = self.directory / wanted
        try:
            inside = path.resolve(strict=True)
            if not inside.is_relative_to(self.directory.resolve()):
                return None
            content = _read(inside)
        except OSError as error:
            return UnreadableFile(path, error.strerror or str(error), isinstance(error, FileNotFoundError))
        if is_page:
            return _page(content)
        headers = {"Content-Disposition": f'attachment; filename="{wanted.replace("/", "-")}"'}
        return Answer(_KINDS[wanted.rpartition(".")[2]], content, headers=headers)

    def newest_of_host(self, host: str) -> str:
        """The newest page about `host`, else the hosts of the newest day; empty: there is no report at all."""
        name = host_page_name(host)
        with contextlib.suppress(OSError):
            days = sorted((each.name for each in self.directory.iterdir() if _DAY.fullmatch(each.name)), reverse=True)
            for day in days[:MOST_DAYS]:
                if (self.directory / day / "host" / name).is_file():
                    return f"{day}/host/{name}"
            if days:
                return f"{days[0]}/report.html#hosts"
        return ""


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(f"it is larger than {MOST_BYTES // 1024**2} MiB")
    return content


def _page(content: bytes) -> Answer:
    """A page with its own policy also as a header, to which a frame and a form add nothing."""
    found = _POLICY.search(content[:HEAD_BYTES])
    policy = html.unescape(found[1].decode()) if found else STRICTEST
    headers = {
        "Content-Security-Policy": f"{policy}; connect-src 'none'; frame-ancestors 'none'",
        "Referrer-Policy": "same-origin",
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
    }
    return Answer("text/html; charset=utf-8", content.replace(ALONE, SERVED, 1), headers=headers)
