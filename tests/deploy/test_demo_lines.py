"""What the demo writes, and whom it kills when: the same for the same seed, and hard enough to be worth a proof."""

import hashlib
import itertools
import time

import pytest

from deploy.demo import hosts
from deploy.demo.hosts import LONG_LINE_BYTES, AccessLines, ApplicationLines, AuthLines
from deploy.demo.scenario import Writer, planned
from shipper.errors import ConfigError
from shipper.partition_map import partition_for

NOW = 1_795_224_489.123
KINDS = [AccessLines, ApplicationLines, AuthLines]


def lines(kind, seed=1, host="web1.example.net", clock=lambda: NOW, **more):
    return kind(host, seed, clock, **more)


def grown(path, feed, *, seconds=6.0, seed=1, rotate_every=1.0):
    """A writer that wrote all of `feed`, in ticks of 30 ms."""
    writer = Writer(feed, path, seconds=seconds, rotate_every=rotate_every, seed=seed)
    for number in range(int(seconds / 0.03) + 2):
        writer.tick(min(number * 0.03, seconds))
    writer.finish()
    return writer


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_writes_the_same_lines_and_another_seed_others(kind):
    first, second, other = lines(kind), lines(kind), lines(kind, seed=2)
    sizes = (1, 500, 100_000)
    text = [first.burst(size) for size in sizes]
    assert text == [second.burst(size) for size in sizes]
    assert text != [other.burst(size) for size in sizes]
    assert lines(kind, host="db1.example.net").burst(500) != text[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_burst_is_whole_lines_of_at_least_the_size_that_was_requested(kind):
    burst = lines(kind).burst(20_000)
    assert burst.endswith(b"\n")
    assert 20_000 <= len(burst) < 20_000 + LONG_LINE_BYTES * 2


def test_lines_carry_the_time_at_which_they_were_written():
    times = itertools.count(NOW, 1.0)
    access = lines(AccessLines, clock=lambda: next(times))
    assert b"[21/Nov/2026:01:28:09 +0000]" in access.burst(1)
    assert b"[21/Nov/2026:01:28:10 +0000]" in access.burst(1)
    assert lines(AuthLines).burst(1).startswith(b"Nov 21 01:28:09 web1 sshd[")
    assert lines(ApplicationLines).burst(1).startswith(b"2026-11-21T01:28:09.123Z ")


def test_the_application_writes_stack_traces_and_now_and_then_a_line_longer_than_a_block():
    text = lines(ApplicationLines).burst(20_000_000)
    assert b"\n\tat net.example.shop." in text
    assert max(map(len, text.split(b"\n"))) > 256 * 1024


def test_a_windows_program_ends_every_line_with_cr_lf():
    text = lines(ApplicationLines, newline="\r\n").burst(300_000)
    assert text.count(b"\n") == text.count(b"\r\n") > 1000


def test_not_everything_is_utf_8():
    with pytest.raises(UnicodeDecodeError):
        lines(AuthLines).burst(100_000).decode()


def test_lines_are_made_much_faster_than_the_demo_writes_them():
    began = time.process_time()
    for kind in KINDS:
        lines(kind).burst(1_000_000)
    assert 3_000_000 / (time.process_time() - began) > 2 * hosts.BYTES_A_SECOND


def test_the_hosts_fall_into_the_partitions_that_are_named_three_of_four():
    assert {host: partition_for(host, hosts.PARTITIONS) for host in hosts.HOSTS} == hosts.HOSTS
    assert len(set(hosts.HOSTS.values())) == 3


def test_one_file_has_crlf_and_one_no_last_newline(tmp_path):
    made = hosts.generated(1.0, 1, lambda: NOW)
    assert [feed.name for feed in made if b"\r\n" in feed.text().burst(1000)] == ["mailer/app.log"]
    (open_ended,) = (feed for feed in made if feed.unterminated)
    writer = grown(tmp_path / "app.log", open_ended)
    assert not writer.path.read_bytes().endswith(b"\n")
    assert writer.held > 0


def test_the_generations_on_disk_are_what_was_written_oldest_first(tmp_path):
    feed = hosts.generated(6.0, 1, lambda: NOW)[1]
    writer = grown(tmp_path / "app.log", feed)
    text = b"".join(path.read_bytes() for path in writer.expected().sources)
    assert writer.generations > 3
    assert sorted(writer.expected().sources) == sorted(tmp_path.iterdir())
    assert (len(text), hashlib.sha256(text).hexdigest()) == (writer.octets, writer.expected().sha256)
    assert text.count(b"\n") == writer.lines
    assert all(path.read_bytes()[-1:] in {b"\n", b""} for path in writer.expected().sources)
    assert feed.text().burst(len(text)).startswith(text)


def test_a_file_is_sometimes_renamed_between_the_two_writes_of_a_line(tmp_path):
    feed = hosts.generated(6.0, 1, lambda: NOW)[0]
    writer = Writer(feed, tmp_path / "access.log", seconds=6.0, rotate_every=0.2, seed=1)
    torn = 0
    for number in range(200):
        before = writer.generations
        writer.tick(number * 0.03)
        renamed = not writer.path.exists()
        torn += renamed and writer.held > 0
        assert writer.generations >= before
    writer.finish()
    assert torn > 1


def test_every_victim_is_killed_at_least_twice_inside_the_flow_and_the_seed_decides_when():
    victims = ["server", "collector", "producer web1", "producer db1", "producer mail1"]
    kills = planned(victims, 6.0, 1)
    assert {victim: [kill.victim for kill in kills].count(victim) for victim in victims} == dict.fromkeys(victims, 2)
    assert [kill.at for kill in kills] == sorted(kill.at for kill in kills)
    assert 0 < kills[0].at < kills[-1].at < 6.0
    assert kills == planned(victims, 6.0, 1) != planned(victims, 6.0, 2)
    assert len(planned(victims, 60.0, 1)) == 5 * 5


def test_fewer_files_than_hosts_go_to_every_host_and_more_are_dealt_out(tmp_path):
    paths = []
    for number in range(4):
        paths.append(tmp_path / f"{number}.log")
        paths[-1].write_bytes(b"x\n")
    few, _ = hosts.replayed(paths[:2], 5.0)
    many, _ = hosts.replayed(paths, 5.0)
    assert [feed.name for feed in few if feed.host == "db1.example.net"] == ["02/0.log", "03/1.log"]
    assert len(few) == 6
    assert len(many) == 4
    assert {feed.host for feed in many} == set(hosts.HOSTS)


def test_your_own_file_is_replayed_byte_for_byte_with_its_odd_end(tmp_path):
    content = b"first\r\n\xff\xfe second\n\n" + b"x" * 100_000 + b"\nno newline"
    (tmp_path / "odd name [1].log").write_bytes(content)
    (feed, *_), _ = hosts.replayed([tmp_path / "odd name [1].log"], 6.0)
    assert feed.name == "00/odd_name__1_.log"
    writer = grown(tmp_path / "replay" / "app.log", feed)
    assert b"".join(path.read_bytes() for path in writer.expected().sources) == content
    assert writer.done
    assert writer.held == len(b"no newline")


def test_of_a_long_file_the_beginning_is_replayed_to_a_lines_end_which_is_reported(tmp_path):
    (tmp_path / "long.log").write_bytes(b"0123456789\n" * 2_000_000)
    (feed, *_), notes = hosts.replayed([tmp_path / "long.log"], 6.0)
    assert feed.bytes_planned == 6_000_000
    assert "the first 6.0 MB" in notes[0]
    writer = grown(tmp_path / "replay" / "app.log", feed)
    assert writer.octets - 6_000_000 in range(11)
    assert writer.path.read_bytes().endswith(b"\n")


def test_a_directory_gives_its_files_without_hidden_compressed_and_empty_ones(tmp_path):
    for name in ("a.log", "a.log.1", "b.gz", ".hidden", "deep/c.log"):
        (tmp_path / "logs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "logs" / name).write_bytes(b"x\n")
    (tmp_path / "logs" / "empty.log").touch()
    made, _ = hosts.replayed([tmp_path / "logs"], 5.0)
    assert [feed.name[3:] for feed in made] == ["a.log", "a.log.1", "c.log"]


@pytest.mark.parametrize("name", ["missing.log", "empty.log"])
def test_a_path_without_anything_to_replay_is_a_configuration_error(tmp_path, name):
    (tmp_path / "empty.log").touch()
    with pytest.raises(ConfigError, match="--path"):
        hosts.replayed([tmp_path / name], 5.0)
