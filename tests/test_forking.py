"""Programs that start by a fork are processes as real as those that start by an exec."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import forking

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


@pytest.fixture(autouse=True)
def forked() -> None:
    forking.use_exec(real=False)


@pytest.mark.starts
def test_a_command_writes_to_its_pipes_and_ends_with_its_code() -> None:
    assert forking.run(["version"], env=ENVIRONMENT, within=60).stdout.startswith("fshipper ")
    failed = forking.run(["produce", "--nothing"], env=ENVIRONMENT, within=60)
    assert (failed.returncode, failed.stdout) == (64, "")
    assert "--nothing" in failed.stderr


@pytest.mark.starts
def test_a_forked_program_is_a_child_that_a_signal_ends(tmp_path: Path) -> None:
    environment = ENVIRONMENT | {
        "NATS_URL": "nats://127.0.0.1:1", "SHIPPER_STATE": str(tmp_path), "HOSTNAME": "web1", "SHIPPER_LISTEN": "",
    }  # fmt: skip
    process = forking.popen(
        ["produce", str(tmp_path / "app.log")], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert process.args[0] == forking.FSHIPPER
    assert f"PPid:\t{os.getpid()}\n" in Path(f"/proc/{process.pid}/status").read_text()
    process.kill()
    assert process.wait(10) == -signal.SIGKILL


@pytest.mark.starts
def test_threads_that_start_programs_in_parallel_get_each_its_own() -> None:
    def code(wanted: int) -> int:
        arguments = ["produce", "--nothing"] if wanted else ["version"]
        return forking.run(arguments, env=ENVIRONMENT, within=60).returncode

    wanted = [0, 64] * 20
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(code, wanted)) == wanted


@pytest.mark.starts
def test_a_variable_that_counts_at_the_start_of_an_interpreter_means_an_exec() -> None:
    process = forking.popen(["version"], env=ENVIRONMENT | {"PYTHONUTF8": "1"}, stdout=subprocess.DEVNULL)
    assert type(process) is subprocess.Popen
    assert process.wait(60) == 0


def test_no_server_starts_inside_a_forked_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(forking.MARK, "1")
    with pytest.raises(AssertionError, match="inside its own child"):
        forking._Server()
