"""The checkpoint of an older version is read, and becomes one of this version."""

import sqlite3
from pathlib import Path

from producing import Host, partly_shipped
from staging import lead, lines, pod

from producer.checkpoint.store import VERSION, Checkpoints


def version_1(state: Path) -> None:
    """Make a checkpoint what the first version of the program wrote."""
    database = sqlite3.connect(state)
    database.execute("ALTER TABLE sources DROP COLUMN real")
    database.execute("PRAGMA user_version = 1")
    database.commit()
    database.close()


def test_the_checkpoint_of_an_older_version_continues_where_it_was(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(b"line", 1000))
    host = Host(tmp_path, "links/*.log")
    partly_shipped(host)
    host.checkpoints.begin_use()
    host.restart(while_down=lambda: version_1(host.state))
    assert not host.checkpoints.fresh
    host.ship()
    assert host.archive.text(link) == lines(b"line", 1000)
    assert host.archive.dropped == 0
    host.restart(while_down=lambda: target.rename(target.with_name("0.log.1")))
    assert not host.checkpoints.fresh
    host.ship()
    host.let_go()
    assert host.archive.gaps == {}
    database = sqlite3.connect(host.state)
    assert database.execute("PRAGMA user_version").fetchone() == (VERSION,)
    database.close()


def test_an_older_checkpoint_that_no_session_used_stays_fresh(tmp_path: Path) -> None:
    state = tmp_path / "checkpoint.sqlite"
    Checkpoints(state).close()
    version_1(state)
    database = sqlite3.connect(state)
    database.execute("PRAGMA user_version = 0")
    database.close()
    checkpoints = Checkpoints(state)
    assert checkpoints.fresh
    assert checkpoints.load() == []
    checkpoints.close()


def test_where_links_lead_is_learned_when_a_file_of_an_older_version_is_followed(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(b"line", 1000))
    host = Host(tmp_path, "links/*.log")
    partly_shipped(host)
    host.checkpoints.begin_use()
    host.restart(while_down=lambda: version_1(host.state))
    partly_shipped(host)
    (tmp_path / "elsewhere").mkdir()

    def turn() -> None:
        target.rename(target.with_name("0.log.1"))
        (tmp_path / "elsewhere" / "0.log").write_bytes(b"new\n")
        lead(link, tmp_path / "elsewhere" / "0.log")

    host.restart(while_down=turn)
    host.ship()
    host.let_go()
    assert host.archive.text(link) == lines(b"line", 1000) + b"new\n"
    assert host.archive.gaps == {}


def test_a_file_that_an_older_version_followed_through_a_link_is_found_next_to_the_target(tmp_path: Path) -> None:
    link, target = pod(tmp_path)
    target.write_bytes(lines(b"line", 1000))
    host = Host(tmp_path, "links/*.log")
    partly_shipped(host)
    host.checkpoints.begin_use()

    def turn() -> None:
        version_1(host.state)
        target.rename(target.with_name("0.log.1"))
        target.write_bytes(b"new\n")

    host.restart(while_down=turn)
    host.ship()
    host.let_go()
    assert host.archive.text(link) == lines(b"line", 1000) + b"new\n"
    assert host.archive.gaps == {}
