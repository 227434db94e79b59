"""`fshipper web` as a user of its own: neither the collector's nor the report's, and of their group. Needs root.

The user is root without the rights to read and write everything, because the interpreter may be in root's home.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from browse_program import WEB
from harness.fleet import FSHIPPER, until
from harness.natsd import running
from harness.ports import free_port
from web_program import PASSWORD, Client, WebProgram

ROOT = Path(__file__).resolve().parents[2]
COLLECTOR, REPORT, GROUP = 64_001, 64_002, 64_000
PUBLISH = """
import os, sys
os.umask(0o027)  # `fshipper report --readable-by group`, its default
sys.path[:0] = [{root!r}, {root!r} + "/tests/spark"]
from pathlib import Path
from nights import a_day
from spark_analytics.report import build, publish
evidence = a_day(20)
publish.publish(Path({out!r}), build.facts(evidence), evidence)
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to start programs as other users"
)


AS_MEMBER = ["setpriv", f"--groups={GROUP}", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]


def give(path: Path, user: int) -> None:
    for each in (path, *path.rglob("*")):
        os.chown(each, user, GROUP, follow_symlinks=False)


@pytest.fixture(scope="module")
def made() -> Iterator[WebProgram]:
    """A fleet whose archive is the collector's, whose reports are the report's."""
    directory = Path(tempfile.mkdtemp(prefix="fshipper-users-"))
    directory.chmod(0o755)
    with running(directory / "natsd") as natsd, WebProgram(directory, natsd.url) as program:
        give(program.archive, COLLECTOR)
        program.archive.chmod(0o750)
        reports = directory / "of-report"
        reports.mkdir(mode=0o750)
        code = PUBLISH.format(root=str(ROOT), out=str(reports))
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=ROOT)
        give(reports, REPORT)
        program.reports = reports
        yield program
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def member(made: WebProgram) -> Iterator[Client]:
    """A client of `fshipper web` that a user of the group runs."""
    home, port = made.directory / "home", free_port()
    shutil.copytree(made.accounts.parent, home / "accounts")
    log = home / "log"
    environment = made.environment(SHIPPER_LISTEN=f"127.0.0.1:{port}", HOME=str(home), XDG_RUNTIME_DIR=str(home))
    command = [*AS_MEMBER, FSHIPPER, "web", f"--report={made.reports}"]
    command += [f"--accounts={home / 'accounts' / made.accounts.name}"]
    with log.open("wb") as output:
        web = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd=ROOT)
    try:
        until(lambda: "the link is in " in log.read_text() or web.poll() is not None, what=log.read_text)
        yield Client(port)
    finally:
        web.terminate()
        web.wait(30)


def test_a_user_of_the_group_is_shown_reports_lines_and_the_page_of_a_host(made: WebProgram, member: Client) -> None:
    assert member.sign_in("bob", PASSWORD).code == 200
    assert member.get("/report/").code == 200
    day = next(path.name for path in made.reports.glob("2*"))
    assert member.get(f"/report/{day}/report.html").code == 200
    page = next((made.reports / day / "host").glob("*.html"))
    moved = member.get(f"/report/host/{page.stem}")
    assert (moved.code, moved.headers["Location"]) == (303, f"/report/{day}/host/{page.name}")
    assert member.get(moved.headers["Location"]).code == 200
    assert (
        member.get("/report/host/nothing-of-it.example.net").headers["Location"] == f"/report/{day}/report.html#hosts"
    )
    assert WEB.encode() in member.search(query="", hosts=[WEB]).body


def test_reports_that_the_group_may_not_read_are_named_with_the_next_step(made: WebProgram, member: Client) -> None:
    assert member.sign_in("bob", PASSWORD).code == 200
    made.reports.chmod(0o700)
    answer, moved = member.get("/report/"), member.get("/report/host/web1")
    made.reports.chmod(0o750)
    assert (answer.code, b"--readable-by" in answer.body) == (503, True)
    assert (moved.code, moved.headers["Location"]) == (303, "/report/")
