"""`fshipper redact` names the copies of the text in streams, dead letters and reports; `--streams` removes some."""

import asyncio
import json
from pathlib import Path

import nats
from harness.fleet import Fleet

HOST = "web1.example"
SECRET = "user 83.149.9.216"


def ship(fleet: Fleet, *lines: str, name: str = "app.log") -> Path:
    path = fleet.directory / name
    with path.open("a") as log:
        log.writelines(f"{line}\n" for line in lines)
    fleet.ship_once(HOST, path)
    return path


def redact(fleet: Fleet, *options: str) -> dict:
    pattern = SECRET.replace(".", r"\.")
    done = fleet.run("redact", str(fleet.archive), "--host", HOST, "--match", pattern, "--json", "--yes", *options)
    assert done.returncode in {0, 2}, done.stderr
    return json.loads(done.stdout)["copies"]


def replayed(fleet: Fleet) -> str:
    return fleet.must("tail", "--since", "1h", "--no-follow")


def stream(copies: dict, name: str = "LOGS_0") -> dict:
    (found,) = [each for each in copies["streams"] if each["stream"] == name]
    return found


def test_the_stream_has_the_text_until_it_is_removed_too_but_for_what_the_archive_lacks(fleet):
    for number in range(3):
        ship(fleet, f"{SECRET} number {number}")
    fleet.drain("--seal")
    ship(fleet, f"{SECRET} is the newest and not archived")
    made = redact(fleet)
    assert len(stream(made)["sequences"]) == 4
    assert stream(made)["removed"] == []
    assert "not in this archive yet" in stream(made)["why_kept"]

    removed = redact(fleet, "--streams")
    assert len(stream(removed)["removed"]) == 3
    assert len(stream(removed)["left"]) == 1
    fleet.drain("--seal")
    kept = stream(redact(fleet, "--streams"))
    assert "newest of the host" in kept["why_kept"]

    ship(fleet, "nothing")
    fleet.drain("--seal")
    assert stream(redact(fleet, "--streams"))["left"] == []
    assert redact(fleet)["streams"] == []
    fleet.must("audit")


def test_dead_letters_reports_and_sent_messages_are_named(fleet, tmp_path):
    async def write_letter():
        client = await nats.connect(fleet.url)
        await client.publish(f"dlq.LOGS_0.{HOST}", SECRET.encode(), headers={"Dlq-Reason": "bad"})
        await client.flush()
        await client.close()

    ship(fleet, SECRET, "more")
    fleet.drain("--seal")
    asyncio.run(write_letter())
    (day,) = [each.name.removeprefix("date=") for each in fleet.archive.glob("date=*")]
    report = tmp_path / "report"
    report.mkdir()
    (report / f"{day}.html").write_text(SECRET)
    (report / ".sent.jsonl").write_text(json.dumps({"event": "sent", "date": day}) + "\n")
    done = fleet.run(
        "redact", str(fleet.archive), "--host", HOST, "--match", SECRET, "--yes", SHIPPER_REPORT=str(report)
    )
    assert "dead letters: 1 dead letter (1)" in done.stdout
    assert f"report {report}: {day}" in done.stdout
    assert "1 report of these days sent" in done.stdout
    assert "--streams removes what is archived" in done.stdout
    assert "not checked: the file on the host" in done.stdout
    assert stream(redact(fleet, "--streams"), "DLQ")["left"] == []


def test_without_a_server_the_archive_is_redacted_and_the_rest_is_reported(fleet, natsd):
    ship(fleet, SECRET, "more")
    fleet.drain("--seal")
    natsd.kill()
    asked = ("redact", str(fleet.archive), "--host", HOST, "--match", SECRET, "--yes")
    refused = fleet.run(*asked, "--streams")
    assert (refused.returncode, "nothing was changed" in refused.stderr) == (69, True)
    done = fleet.run(*asked)
    assert done.returncode == 0
    assert "blacked out" in done.stdout
    assert "streams and dead letters were not checked: no NATS server answers" in done.stderr
