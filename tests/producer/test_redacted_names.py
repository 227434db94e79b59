"""Names of files that hold a secret: they are shipped as they are, so a person is warned before."""

from pathlib import Path

import pytest
from fleet import Fleet
from natsd import NatsServer
from producing import Host, append
from prometheus_client import REGISTRY

from producer.batcher import Encoder
from producer.transform.edits import Edits
from shipper.compression import Compressor
from shipper.model import Encoding

SECRET = "hunter2x"


@pytest.mark.parametrize(
    "name", [f"/var/log/app-password={SECRET}.log", f"/srv/token={SECRET}/a.log", f"/l/ssn-{SECRET}.log"]
)
def test_a_name_with_a_secret_is_warned_of_without_the_secret(name: str) -> None:
    (shown,) = Edits.of(redact=["token", "ssn-[a-z0-9]+"]).secret_names([name, "/var/log/ok.log"])
    assert SECRET not in shown


def test_usual_names_and_a_producer_that_redacts_nothing_give_no_warning() -> None:
    names = ["/var/log/auth.log", "/var/log/token-service.log", "/var/log/passwords/app.log", str(Path("/tmp/\udcff"))]
    assert Edits.of(redact=["token", "card", "email"]).secret_names(names) == []
    assert Edits().secret_names([f"/l/password={SECRET}"]) == []


def test_a_name_with_a_secret_is_logged_once_and_redacted_while_it_is_shipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edits = Edits.of(redact=["token"])
    for name in ("app.log", "café-token=hunter2x.log", "\udcff-password=hunter2x.log"):
        (tmp_path / name).write_bytes(b"one\n")
    host = Host(tmp_path, "*.log", edits=edits)
    encoder = Encoder(Compressor(Encoding.IDENTITY), edits)
    before = REGISTRY.get_sample_value("fshipper_secret_file_names_total") or 0
    for _ in range(3):
        host.sources.scan()
        assert len(encoder.entries(host.read_all())) == 3
        for path in tmp_path.glob("*.log"):
            append(path, b"more\n")
    said = [line for line in capsys.readouterr().err.splitlines() if "file_name_holds_secret" in line]
    assert len(said) == 2
    assert REGISTRY.get_sample_value("fshipper_secret_file_names_total") == before + 2
    assert not any(SECRET in line for line in said)


def test_a_producer_ships_such_a_file_and_names_it_redacted(tmp_path: Path, natsd: NatsServer) -> None:
    path, other = tmp_path / f"app-password={SECRET}.log", tmp_path / "other.log"
    for each in (path, other):
        each.write_bytes(b"one\n")
    config = tmp_path / "fshipper.toml"
    config.write_text('[producer]\nredact = ["token"]\npattern_time = "2s"\n')
    with Fleet(tmp_path, natsd.url) as fleet:
        fleet.apply()
        done = fleet.run("produce", "--once", "--config", str(config), str(path), str(other), HOSTNAME="web1")
        assert done.returncode == 0, done.stderr
        (said,) = [line for line in done.stderr.splitlines() if "file_name_holds_secret" in line]
        assert SECRET not in said
        (old,) = [line for line in done.stderr.splitlines() if "setting_without_effect" in line]
        assert "producer.pattern_time" in old
        assert "no effect since 0.2.0" in old
        fleet.drain()
        assert fleet.archived("web1", path) == b"one\n"
