"""What other clients can put on the wire of a real server, and where SHIPPER_OUTPUT lets it go."""

import json

import pytest
from harness.fleet import Fleet
from hostile import publish

HOST = "web1.example.net"


@pytest.mark.parametrize(
    ("output", "name"), [("logs/{host}-%Y.log", f"logs/{HOST}-20??.log"), ("{host}/{file}", f"{HOST}/messages.log")]
)
def test_the_template_of_the_blog_is_written_as_it_describes(output, name, fleet, natsd):
    publish(natsd, *((f"logs.p0.{HOST}", {}, b"line %d" % number) for number in range(100)))
    fleet.must("consume", "--drain", "--output", output)
    fleet.must("consume", "--drain", "--output", output)
    (lines,) = fleet.archive.glob(name)
    assert not list(fleet.archive.glob("date=*"))
    assert lines.read_bytes() == b"".join(b"line %d\n" % number for number in range(100))


def test_a_template_that_names_one_file_for_two_partitions_is_refused(natsd, tmp_path):
    with Fleet(tmp_path, natsd.url, partitions=2) as fleet:
        fleet.apply()
        refused = fleet.run("consume", "--drain", "--output", "%Y.log")
        assert refused.returncode == 78
        assert "{partition}" in refused.stderr
        fleet.must("consume", "--drain", "--output", "{partition}/%Y.log")
        fleet.must("consume", "--drain", "--partitions", "0", "--output", "%Y.log")


def test_a_template_that_leads_out_of_the_archive_is_refused(fleet):
    for output in ("../{host}.log", "/tmp/{host}.log", "a/../../{host}.log", "{secret}.log"):
        assert fleet.run("consume", "--drain", "--output", output).returncode == 78


def test_what_a_hostile_client_can_publish_ends_in_the_archive_or_with_the_dead_letters(fleet, natsd, tmp_path):
    hosts = ["*", ">", "a%2F..%2Fb", "%" * 90, "x" * 240, "q\\u0000", "'\"#", "UPPER"]
    publish(natsd, *((f"logs.p0.{host}", {}, b"x") for host in hosts))
    for headers in (b"Log-Id: 1\r\n", b"Nats-Expected-Stream: LOGS_0\r\nLog-Id: 1\r\n", b"Log-Id: 1\r\n : v\r\n"):
        publish(natsd, ("logs.p0.*", headers, b"poison"), (f"logs.p0.{HOST}", headers, bytes(1_000_000)))
    publish(natsd, (f"logs.p0.{HOST}", {}, b"sound"))
    beside = {path.name for path in tmp_path.iterdir()} | {"archive", "state"}
    fleet.drain("--seal")
    assert {path.name for path in tmp_path.iterdir()} == beside
    assert fleet.archived(HOST, "messages.log") == b"sound\n"
    assert fleet.lag() == 0
    status = json.loads(fleet.must("partition", "status", "--json"))
    assert status
