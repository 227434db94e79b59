"""Keys of an installation get the group of the program that they are of; everything else is left as it is."""

import os

import pytest

from deploy.install import keys
from deploy.install.keys import UserIds

US, OUR_GROUP = os.geteuid(), os.getegid()
IDS = {"fshipper": UserIds(US, OUR_GROUP), "fshipper-producer": UserIds(US, OUR_GROUP)}


@pytest.fixture
def etc(tmp_path):
    """The keys of a machine with two roles, which both read by their settings or variables."""
    (tmp_path / "producer.toml").write_text(f'[nats]\nnkey_seed = "{tmp_path}/web1.nk"\n')
    (tmp_path / "producer.env").write_text(f'# NATS_NKEY=none\nNATS_KEY="{tmp_path}/tls.pem"\nSHIPPER_FILE=/x\n')
    (tmp_path / "collector.env").write_text(f"NATS_CREDS={tmp_path}/central.creds\n")
    for name in ("web1.nk", "tls.pem", "central.creds", "of-nobody.nk"):
        (tmp_path / name).write_text("secret")
        (tmp_path / name).chmod(0o600)
    return tmp_path


def given(etc, monkeypatch, *, ids_of=IDS.__getitem__):
    """The groups of the files that were changed, by their names, and what was reported."""
    changed = {}
    monkeypatch.setattr(keys, "_give", lambda path, group, _: changed.update({path.name: group}))
    problems = list(keys.hand_over(etc, ids_of))
    return changed, problems


def test_a_key_gets_the_group_of_the_program_that_names_it(etc, monkeypatch):
    groups = {"fshipper": UserIds(1, 11), "fshipper-producer": UserIds(2, 22)}
    expected = {"web1.nk": 22, "tls.pem": 22, "central.creds": 11}
    assert given(etc, monkeypatch, ids_of=groups.__getitem__) == (expected, [])


def test_a_key_that_two_programs_name_is_reported(etc, monkeypatch):
    (etc / "collector.env").write_text(f"NATS_CREDS={etc}/web1.nk\n")
    _, (problem,) = given(etc, monkeypatch)
    assert problem.startswith(f"{etc}/web1.nk is the key of the producer and of another program")


def test_a_key_of_another_directory_is_left_alone(etc, monkeypatch):
    (etc / "collector.env").write_text("NATS_CREDS=/root/central.creds\n")
    assert set(given(etc, monkeypatch)[0]) == {"web1.nk", "tls.pem"}


def test_a_second_run_changes_nothing(etc):
    assert list(keys.hand_over(etc, IDS.__getitem__)) == []
    first = {path.name: path.stat() for path in etc.iterdir()}
    assert (first["web1.nk"].st_mode & 0o777, first["of-nobody.nk"].st_mode & 0o777) == (0o640, 0o600)
    assert list(keys.hand_over(etc, IDS.__getitem__)) == []
    assert {path.name: path.stat().st_mode for path in etc.iterdir()} == {
        name: found.st_mode for name, found in first.items()
    }


@pytest.mark.parametrize("kind", ["link", "hard link", "directory", "fifo", "missing"])
def test_what_is_no_file_of_its_own_is_not_changed(etc, kind):
    victim, path = etc / "victim", etc / "web1.nk"
    victim.write_text("of another")
    victim.chmod(0o600)
    path.unlink()
    make = {
        "link": lambda: path.symlink_to(victim),
        "hard link": lambda: path.hardlink_to(victim),
        "directory": lambda: path.mkdir(mode=0o700),
        "fifo": lambda: os.mkfifo(path, 0o600),
        "missing": lambda: None,
    }
    make[kind]()
    problems = list(keys.hand_over(etc, IDS.__getitem__))
    assert [problem.partition(" keeps ")[0] for problem in problems] == (
        [str(path)] if kind in {"link", "directory"} else []
    )
    assert victim.stat().st_mode & 0o777 == 0o600
    if path.exists():
        assert path.stat().st_mode & 0o777 in {0o600, 0o700}


def test_a_user_that_is_missing_is_reported(etc):
    def missing(name):
        raise KeyError(f"no user {name}")

    assert len(list(keys.hand_over(etc, missing))) == 3
