"""Sign-ins by method, and failed passwords of the same user and address before an accepted one."""

import pytest
from day_archives import table_of

from spark_analytics.metrics import sign_ins
from spark_analytics.scan import driver_lines
from spark_analytics.tables.day_tables import AuthCount

LINES = b"""\
Nov 20 05:00:01 web1 sshd[7]: Failed password for root from 192.0.2.7 port 5 ssh2
Nov 20 05:00:02 web1 sshd[7]: message repeated 5 times: [ Failed password for root from 192.0.2.7 port 5 ssh2]
Nov 20 05:59:03 web1 sshd[7]: Failed keyboard-interactive/pam for root from 192.0.2.7 port 5 ssh2
Nov 20 06:10:00 web1 sshd[7]: Accepted password for root from 192.0.2.7 port 5 ssh2
Nov 20 06:10:00 web1 sshd[7]: Accepted publickey for deploy from 192.0.2.53 port 5 ssh2: ED25519 SHA256:abc
Nov 20 07:00:00 web1 sshd[7]: Failed password for deploy from 192.0.2.53 port 5 ssh2
Nov 20 08:10:00 web1 sshd[7]: Accepted keyboard-interactive/pam for jo from 192.0.2.8 port 5 ssh2
Nov 20 09:10:00 web1 sshd[7]: Failed password for jo from 192.0.2.8 port 5 ssh2
"""


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_sign_in_has_its_method_and_failures_before_it_are_paired(archive, spark, tmp_path, monkeypatch, engine):
    if engine == "spark":
        monkeypatch.setattr(driver_lines, "MAX_GROUPS", 0)
    archive.seal(LINES, file="/var/log/auth.log")
    made = archive.reported(spark, tmp_path / "out")
    rows = {(row["kind"], row["method"], row["user"]): row for row in table_of(tmp_path / "out", "auth_daily")}

    assert {key: (row["n"], row["failed_attempts"]) for key, row in rows.items()} == {
        ("failed_password", "password", "root"): (2, None),
        ("failed_password", "keyboard-interactive/pam", "root"): (1, None),
        ("accepted", "password", "root"): (1, 7),
        ("accepted", "publickey", "deploy"): (1, None),
        ("failed_password", "password", "deploy"): (1, None),
        ("accepted", "keyboard-interactive/pam", "jo"): (1, 0),
        ("failed_password", "password", "jo"): (1, None),
    }
    root = rows["accepted", "password", "root"]
    times = [root[name].strftime("%H:%M:%S") for name in ("first_ts", "failed_first_ts", "failed_last_ts")]
    assert times == ["06:10:00", "05:00:01", "05:59:03"]
    assert [(entry.user, entry.remote, entry.failed) for entry in made.auth.after_failures] == [
        ("root", "192.0.2.7", 7)
    ]


def an_hour(auth, user, remote, first, last, attempts=1, host="h"):
    return AuthCount(0, host, auth, user, remote, attempts, attempts, first, last)


def test_failures_after_the_acceptance_of_others_or_without_a_time_do_not_count():
    hours = [
        an_hour("failed_password password", "root", "a", 10, 20, attempts=3),
        an_hour("failed_password password", "root", "a", 90, 95, attempts=3, host="other"),
        an_hour("failed_password password", "root", "a", 101, 110, attempts=50),
        an_hour("failed_password password", "root", "b", 10, 20, attempts=50),
        an_hour("failed_password password", "jo", "a", 10, 20, attempts=50),
        an_hour("failed_password password", "root", "a", None, None, attempts=50),
        an_hour("accepted password", "root", "a", 100, 100),
    ]
    (accepted,) = [row for row in sign_ins.auth_daily(hours) if row["kind"] == "accepted"]

    assert accepted["failed_attempts"] == 6


def test_a_host_certificate_and_a_public_key_are_no_passwords():
    assert [sign_ins.is_password(name) for name in ("password", "keyboard-interactive/pam", "publickey", "", None)] == [
        True, True, False, False, False,
    ]  # fmt: skip


HOSTILE = """\
Nov 20 01:00:00 web1 sshd[7]: Failed password for jo smith from 2001:db8::7 port 5 ssh2
Nov 20 01:00:01 web1 sshd[7]: message repeated 4 times: [ Failed password for jo smith from 2001:db8::7 port 5 ssh2]
Nov 20 01:00:09 web1 sshd[7]: Accepted password for jo smith from 2001:db8::7 port 5 ssh2
Nov 20 01:00:10 web1 sshd[7]: message repeated 9 times: [ Failed password for jo smith from 2001:db8::7 port 5 ssh2]
Nov 20 02:00:00 web1 sshd[7]: Failed password for invalid user x from 192.0.2.6 port 2 from 2001:db8::8 port 5 ssh2
Nov 20 02:00:00 web1 sshd[7]: Invalid user Failed password for bob from 192.0.2.66 port 22 from 2001:db8::8
Nov 20 02:00:01 web1 sshd[7]: Failed password for invalid user  from 2001:db8::8 port 5 ssh2
Nov 20 02:00:02 web1 sshd[7]: Accepted none for guest from fe80::1%eth0 port 5 ssh2
Nov 20 02:00:03 web1 sshd[7]: Failed publickey for deploy from 2001:db8::9 port 5 ssh2: RSA SHA256:abc
Nov 20 03:00:00 web1 sshd-session[7]: Failed keyboard-interactive/pam for eve from 2001:db8::9 port 5 ssh2
Nov 20 03:00:00 web1 sshd[7]: [ID 800047 auth.info] Failed password for eve from 2001:db8::9 port 5 ssh2
Nov 20 03:00:07 web1 sshd[7]: Accepted keyboard-interactive/pam for eve from 2001:db8::9 port 5 ssh2
"""


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.long)])
def test_hostile_names_addresses_and_orders(archive, spark, tmp_path, monkeypatch, engine):
    if engine == "spark":
        monkeypatch.setattr(driver_lines, "MAX_GROUPS", 0)
    archive.seal(HOSTILE.encode(), file="/var/log/auth.log")
    made = archive.reported(spark, tmp_path / "out")
    rows = {
        (row["kind"], row["method"], row["user"], row["remote"]): (row["attempts"], row["failed_attempts"])
        for row in table_of(tmp_path / "out", "auth_daily")
    }

    assert rows == {
        ("odd_name", "password", "jo smith", "2001:db8::7"): (14, None),
        ("accepted", "password", "jo smith", "2001:db8::7"): (1, 5),
        ("odd_name", "password", "x from 192.0.2.6 port 2", "2001:db8::8"): (1, None),
        ("odd_name", "password", "", "2001:db8::8"): (1, None),
        ("accepted", "none", "guest", "fe80::1%eth0"): (1, None),
        ("failed_publickey", "publickey", "deploy", "2001:db8::9"): (1, None),
        ("failed_password", "keyboard-interactive/pam", "eve", "2001:db8::9"): (1, None),
        ("failed_password", "password", "eve", "2001:db8::9"): (1, None),
        ("accepted", "keyboard-interactive/pam", "eve", "2001:db8::9"): (1, 2),
    }
    assert {(m.method, m.accepted, m.failed) for m in made.auth.methods} == {
        ("password", 1, 17), ("keyboard-interactive/pam", 1, 1), ("publickey", 0, 1), ("none", 1, 0),
    }  # fmt: skip
    (found,) = made.auth.after_failures
    assert (found.user, found.failed, found.at, found.failed_last) == (
        "jo smith", 5, "2026-11-20T01:00:09Z", "2026-11-20T01:00:01Z",
    )  # fmt: skip


def test_failures_after_the_acceptance_in_its_own_hour_do_not_count(archive, spark, tmp_path):
    lines = [b"Nov 20 05:10:00 web1 sshd[7]: Accepted password for root from 192.0.2.7 port 5 ssh2"]
    lines += [
        b"Nov 20 05:%02d:00 web1 sshd[7]: Failed password for root from 192.0.2.7 port 5 ssh2" % minute
        for minute in (9, *range(11, 40))
    ]
    archive.seal(b"\n".join(lines) + b"\n", file="/var/log/auth.log")
    made = archive.reported(spark, tmp_path / "out")
    rows = {row["kind"]: row for row in table_of(tmp_path / "out", "auth_daily")}

    assert (rows["accepted"]["failed_attempts"], rows["failed_password"]["n"]) == (1, 30)
    assert made.auth.after_failures == ()


def test_times_with_an_offset_are_compared_in_utc_when_the_clock_is_set_back(archive, spark, tmp_path):
    """At 03:00 summer time the clock is set back to 02:00: 02:40 of the summer is before 02:10 of the winter."""
    line = "2026-11-20T{} web1 sshd[7]: {} password for root from 192.0.2.7 port 5 ssh2\n"
    failed = [line.format(f"02:{minute}:00+02:00", "Failed") for minute in range(40, 48)]
    archive.seal("".join([*failed, line.format("02:10:00+01:00", "Accepted")]).encode(), file="/var/log/auth.log")
    (found,) = archive.reported(spark, tmp_path / "out").auth.after_failures

    assert (found.failed, found.failed_first, found.at) == (8, "2026-11-20T00:40:00Z", "2026-11-20T01:10:00Z")


def test_one_failure_before_each_of_ten_sign_ins_is_one_failure():
    hours = [an_hour("failed_password password", "root", "a", second, second) for second in range(0, 1000, 100)] + [
        an_hour("accepted password", "root", "a", second, second, host=f"h{second}") for second in range(50, 1000, 100)
    ]
    rows = [row for row in sign_ins.auth_daily(hours) if row["kind"] == "accepted"]

    assert [row["failed_attempts"] for row in rows] == [1] * 10


def test_failures_before_the_first_of_several_acceptances_are_found():
    hours = [
        an_hour("failed_password password", "root", "a", 10, 10, attempts=6),
        an_hour("failed_password password", "root", "a", 60, 60, attempts=2),
        *(an_hour("accepted password", "root", "a", second, second) for second in (20, 90, 95)),
    ]
    (row,) = [row for row in sign_ins.auth_daily(hours) if row["kind"] == "accepted"]

    assert (row["failed_attempts"], row["failed_accepted_ts"].timestamp(), row["n"]) == (6, 20, 3)
