"""The units as systemd sees them: valid in every directory, confined, and tied to programs and settings that exist."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from deploy.install.plan import PIECES, STATE, FileKind, Role
from shipper import config
from spark_analytics.delivery import targets

SYSTEMD = Path(__file__).parents[2] / "deploy" / "systemd"
SERVICES = sorted(SYSTEMD.glob("*.service"))
SPARK = sorted((SYSTEMD.parent / "spark").glob("*.service"))
UNITS = [*SERVICES, *SYSTEMD.glob("*.timer")]
DAEMONS = [
    path for path in SERVICES if path.stem in {"fshipper-producer", "fshipper-collector", "fshipper-partitioner"}
]
EXPOSURE = 3.0


@pytest.fixture
def analyze():
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze here: apt-get install systemd")

    def analyze(*arguments):
        done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + done.stderr).strip()

    return analyze


def words(path):
    """Section -> name -> values."""
    found: dict[str, dict[str, list[str]]] = {}
    section = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(section, {}).setdefault(name, []).append(value)
    return found


def test_systemd_has_nothing_to_say_about_any_unit(analyze):
    """Straight from the checkout, where nothing is installed."""
    assert len(UNITS) == 9
    assert analyze("verify", *UNITS) == (0, "")


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_has_nothing_to_say_about_a_unit_alone(analyze, tmp_path, path):
    """A timer requires its service, and nothing else has requirements."""
    for each in [path, *([path.with_suffix(".service")] if path.suffix == ".timer" else [])]:
        shutil.copy(each, tmp_path)
    assert analyze("verify", tmp_path / path.name) == (0, "")


@pytest.mark.parametrize("path", [*SERVICES, *SPARK], ids=lambda path: path.name)
def test_every_service_is_confined(analyze, path):
    code, said = analyze("security", "--no-pager", "--offline=true", f"--threshold={EXPOSURE * 10:.0f}", path)
    exposure = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert exposure, said
    assert float(exposure[1]) < EXPOSURE
    assert code == 0, said


def test_the_report_comes_every_night_in_utc(analyze):
    timer = words(SYSTEMD / "fshipper-report.timer")["Timer"]
    code, said = analyze("calendar", *timer["OnCalendar"])
    assert code == 0, said
    assert timer["Persistent"] == ["true"]
    nights = timer["OnCalendar"][0]
    assert re.fullmatch(r"\*-\*-\* 0[1-3]:\d\d:00 UTC", nights), "behind midnight, when the days are closed"


@pytest.mark.parametrize("path", DAEMONS, ids=lambda path: path.name)
def test_a_daemon_is_watched_and_comes_back(path):
    unit = words(path)
    service = unit["Service"]
    assert unit["Unit"]["StartLimitIntervalSec"] == ["0"], "it never gives up"
    assert service["Type"] == ["notify"]
    assert service["Restart"] == ["always"]
    assert service["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert service["WatchdogSec"]
    assert " validate --role " in service["ExecStartPre"][0]


@pytest.mark.parametrize("page", ["browse", "web"])
def test_a_page_shares_no_user_with_another_role_and_reads_the_archive_by_its_group(page):
    users = {path.stem: words(path)["Service"]["User"] for path in SERVICES}
    assert users[f"fshipper-{page}"] not in [user for name, user in users.items() if name != f"fshipper-{page}"]
    service = words(SYSTEMD / f"fshipper-{page}.service")["Service"]
    assert service["Group"] == words(SYSTEMD / "fshipper-collector.service")["Service"]["Group"]
    assert service["TemporaryFileSystem"] == ["/etc/fshipper:ro"], "keys of other roles are readable by the group"
    assert service["BindReadOnlyPaths"][0].split()[0] == f"-/etc/fshipper/{page}.toml"


def test_the_producer_shares_no_user_with_another_role_and_sees_none_of_their_files():
    """It may read every file, so what belongs to the others is hidden from it."""
    users = {path.stem: words(path)["Service"]["User"] for path in [*SERVICES, *SPARK]}
    service = words(SYSTEMD / "fshipper-producer.service")["Service"]
    assert [name for name, user in users.items() if user == users["fshipper-producer"]] == ["fshipper-producer"]
    assert service["Group"] == ["fshipper-producer"]
    hidden = " ".join(service["InaccessiblePaths"]).split()
    others = [role for role in Role if role not in {Role.HOST, Role.SERVER}]
    configuration = {
        f"-/{piece.target}" for role in others for piece in PIECES[role] if piece.kind is FileKind.CONFIGURATION
    }
    assert configuration | {f"-{STATE[role]}" for role in [*others, Role.SERVER]} <= set(hidden)
    assert {f"-/etc/fshipper/{name}" for name in ("keys", "collector.nk", "reader.creds")} <= set(hidden)
    assert all(path.startswith("-/") for path in hidden), "a path that is not there must not end the start"
    assert not [path for path in hidden if "producer" in path or path == "-/etc/fshipper"]


@pytest.mark.parametrize("page", ["browse", "web"])
def test_searches_in_a_browser_leave_the_machine_to_the_collector(page):
    service = words(SYSTEMD / f"fshipper-{page}.service")["Service"]
    assert int(service["CPUWeight"][0]) < 100
    assert service["MemoryMax"]
    assert service["UMask"] == ["0077"]


@pytest.mark.parametrize("role", Role)
def test_state_and_programs_are_where_the_configuration_names_them(role):
    pieces = [piece for piece in PIECES[role] if piece.kind is not FileKind.SYSTEM]
    units = [words(SYSTEMD / Path(p.source).name) for p in pieces if p.source.endswith(".service")]
    assert units
    written = {f"/{piece.target}" for piece in pieces}
    for unit in units:
        service = unit["Service"]
        if role is Role.BROWSE:
            assert "StateDirectory" not in service, "it only reads the archive"
            assert service["ProtectSystem"] == ["strict"]
        else:
            assert f"/var/lib/{service['StateDirectory'][0]}" == STATE[role]
        assert any(value.startswith("PATH=/opt/fshipper/bin:") for value in service["Environment"])
        where = [
            *service["Environment"],
            *service.get("EnvironmentFile", []),
            *unit["Unit"].get("ConditionPathExists", []),
        ]
        assert set(re.findall(r"/etc/[\w/.-]+", " ".join(where))) <= written


def test_the_example_of_targets_has_none_and_is_valid_without_its_comment_signs(tmp_path):
    text = (SYSTEMD / "etc" / "send.toml").read_text()
    path = tmp_path / "send.toml"
    path.write_text(text)
    assert targets.read(path).target == ()
    path.write_text(re.sub(r"(?m)^# (\w+ = |\[\[)", r"\1", text))
    assert [target.kind for target in targets.read(path).target] == ["mail", "slack"]


@pytest.mark.parametrize("name", ["producer", "collector", "partitioner", "browse", "web"])
def test_the_example_configuration_is_valid_also_with_every_comment_taken_away(name):
    """A commented default is the default, and a commented example can be used."""
    text = (SYSTEMD / "etc" / f"{name}.toml").read_text()
    whole = re.sub(r"(?m)^# (\w+ = )", r"\1", text)
    for content, path in ((text, "plain"), (whole, "whole")):
        values = tomllib.loads(content)
        keys = {f"{section}.{key}" for section, inside in values.items() for key in inside}
        assert keys <= set(config.known_keys()), path
    assert len(re.findall(r"(?m)^\w+ = ", whole)) > len(re.findall(r"(?m)^\w+ = ", text)) + 3


@pytest.mark.parametrize("name", ["producer", "collector", "partitioner", "browse", "web"])
def test_the_example_configuration_loads(tmp_path, name):
    text = (SYSTEMD / "etc" / f"{name}.toml").read_text()
    for number, content in enumerate([text, re.sub(r"(?m)^# (\w+ = )", r"\1", text)]):
        path = tmp_path / f"{number}.toml"
        path.write_text(content)
        config.load({}, config=path, environment={})


def test_the_environment_files_name_variables_that_are_read():
    for path in (SYSTEMD / "etc").glob("*.env"):
        for name in re.findall(r"(?m)^(?:# )?([A-Z_]+)=", path.read_text()):
            assert name in {*config.ENVIRONMENT, *config.OTHERS, "JAVA_HOME", "SPARK_LOCAL_IP"}, f"{path.name}: {name}"


def test_users_and_directories_are_made(tmp_path):
    programs = [shutil.which("systemd-sysusers"), shutil.which("systemd-tmpfiles")]
    if None in programs or os.geteuid() != 0:
        pytest.skip("systemd-sysusers and systemd-tmpfiles are missing, or this is not root: apt-get install systemd")
    directory = tmp_path / "etc" / "fshipper"
    (directory / "keys").mkdir(parents=True)
    owners = {"producer.env": "fshipper-producer", "host.nk": "fshipper-producer", "keys/x.nk": "fshipper"}
    owners |= dict.fromkeys(("collector.toml", "reader.creds", "browse.env"), "fshipper")
    for name in owners:
        (directory / name).write_text("NATS_PASSWORD=x\n")
    victim = tmp_path / "victim"
    victim.touch(mode=0o600)
    (directory / "collector.nk").symlink_to(victim)
    for kind, options in (("sysusers", []), ("tmpfiles", ["--create"])):
        files = [str(path) for path in (SYSTEMD / f"{kind}.d").glob("*.conf")]
        done = subprocess.run(
            [f"systemd-{kind}", f"--root={tmp_path}", *options, *files], capture_output=True, text=True, check=False
        )
        assert (done.returncode, "fail" in done.stderr.lower()) == (0, False), done.stderr
    users = {line.split(":")[0]: line.split(":") for line in (tmp_path / "etc" / "passwd").read_text().splitlines()}
    assert {"fshipper", "fshipper-browse", "fshipper-producer", "nats"} <= set(users)
    for name, owner in owners.items():
        found = (directory / name).stat()
        assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o640, 0, int(users[owner][3])), name
    assert (victim.stat().st_mode & 0o777, victim.stat().st_gid) == (0o600, 0)
    assert directory.stat().st_mode & 0o777 == 0o751
    groups = {line.split(":")[0]: line.split(":")[3] for line in (tmp_path / "etc" / "group").read_text().splitlines()}
    assert {name for name, members in groups.items() if "fshipper-producer" in members} == {"adm", "systemd-journal"}
