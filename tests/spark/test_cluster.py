"""The wheel on executors of their own: a standalone master and worker, and a cluster within one command."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from day_archives import DATE, Archive

from spark_analytics.tables import schemas

ROOT = Path(__file__).resolve().parents[2]
SPARK = ROOT / "deploy" / "spark"
BIN = Path(sys.executable).parent
VERSION = "0.1.0+wheel"
"""Of the wheel, so that a report shows whether it was made by the wheel or by what is installed here."""

REQUEST = b'10.0.0.%d - - [20/Nov/2026:10:%02d:00 +0000] "GET /a/%d HTTP/1.1" %d 512 "-" "curl"\n'


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("shipper", "spark_analytics"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    told = (ROOT / "pyproject.toml").read_text()
    (source / "pyproject.toml").write_text(re.sub('(?m)^version = ".*"', f'version = "{VERSION}"', told))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(made), str(source)], check=True, timeout=100)
    return next(made.glob("*.whl"))


@pytest.fixture(scope="module")
def environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SHIPPER_", "PYSPARK_"))}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PATH": f"{BIN}:{os.environ['PATH']}"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """`deploy/spark/spark-defaults.conf`, with the paths of here, and `bucket`, which is no path of any machine."""
    place = tmp_path_factory.mktemp("settings")
    text = (SPARK / "spark-defaults.conf").read_text()
    text = text.replace("/etc/fshipper/spark", str(SPARK)).replace("/var/log/fshipper", str(place))
    (place / "spark-defaults.conf").write_text(text)
    return place / "spark-defaults.conf"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    made = Archive(tmp_path_factory.mktemp("archive"))
    for host in range(3):
        lines = b"".join(
            b"2026-11-20T%02d:%02d:00Z %s job %d took %d ms\n" % (n % 24, n % 60, level, n % 9, n)
            for n, level in enumerate((b"INFO", b"WARN", b"ERROR", b"INFO") * 40)
        )
        made.seal(lines + b"a stack trace, and no newline", host=f"h{host}", partition=host, codec="zstd")
    requests = b"".join(REQUEST % (n % 5, n % 60, n % 7, (200, 304, 404, 500)[n % 4]) for n in range(200))
    made.seal(requests, host="web1", file="/var/log/access.log", codec="gzip")
    made.seal(b"Failed password for root from 10.9.9.9 port 1 ssh2\n", host="web1", file="/var/log/auth.log")
    made.close()
    return made


@pytest.fixture(scope="module")
def expected(archive, spark, tmp_path_factory):
    out = tmp_path_factory.mktemp("local")
    archive.reported(spark, out)
    return results(spark, out)


@contextlib.contextmanager
def standalone(environment, place):
    """A master and a worker on loopback; yields the master's URL."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    own = {"SPARK_MASTER_PORT": str(port), "SPARK_WEBUI_PORT": "0", "SPARK_WORKER_DIR": str(place / "work")}
    limits = {"SPARK_WORKER_CORES": "2", "SPARK_WORKER_MEMORY": "2g", "SPARK_DAEMON_MEMORY": "256m"}
    started = []
    try:
        for role, ready in (("master", "New state: ALIVE"), ("worker", "Successfully registered")):
            log = place / f"{role}.log"
            with log.open("wb") as stderr:
                command = ["sh", str(SPARK / "standalone.sh"), role]
                started.append(subprocess.Popen(command, stderr=stderr, env={**environment, **own, **limits}))
            wait_for(log, ready)
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def wait_for(log, text):
    end = time.monotonic() + 60
    while text not in log.read_text():
        assert time.monotonic() < end, log.read_text()[-2000:]
        time.sleep(0.1)


def submit(master, wheel, settings, environment, *arguments):
    ended = subprocess.run(
        [
            str(BIN / "spark-submit"),
            *("--master", master, "--properties-file", str(settings), "--py-files", str(wheel)),
            *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=1g"),
            str(SPARK / "report.py"),
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=settings.parent,
        env=environment,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert len(ended.stderr.splitlines()) <= 1, ended.stderr
    return json.loads(ended.stdout)


def results(spark, out):
    """Everything that a report holds but its own run; of sketches, which are bytes, only that they are there."""
    tables = {}
    for name, schema in schemas.TABLES.items():
        if name != "runs":
            columns = [field.name for field in schema if field.dataType.typeName() != "binary"]
            rows = spark.read.parquet(str(out / "tables" / name / f"date={DATE}")).select(*columns).collect()
            tables[name] = sorted(map(repr, rows))
    shown = json.loads((out / DATE / "report.json").read_bytes())
    del shown["run"]
    return tables, shown


def test_a_standalone_cluster_yields_what_two_threads_here_do(
    archive, expected, wheel, settings, environment, spark, tmp_path
):
    with standalone(environment, tmp_path) as master:
        named = ["--archive", str(archive.root), "--date", DATE, "--out", str(tmp_path / "out"), "--json"]
        shown = submit(master, wheel, settings, environment, *named)

    assert (shown["run"]["master"], shown["run"]["program_version"]) == (master, VERSION)
    assert results(spark, tmp_path / "out") == expected


def test_a_cluster_of_two_executors_yields_what_two_threads_here_do_from_a_store_to_a_store(
    archive, expected, wheel, settings, environment, spark, tmp_path
):
    """The store has another name for the directory, so it cannot be opened as a path."""
    (tmp_path / "out").mkdir()
    stored = tmp_path / "spark-defaults.conf"
    links = {"archive": archive.root, "out": tmp_path / "out"}
    mounts = [f"spark.hadoop.fs.viewfs.mounttable.bucket.link./{name} file://{path}" for name, path in links.items()]
    stored.write_text("\n".join([settings.read_text(), *mounts]))

    named = ["--archive", "viewfs://bucket/archive", "--date", DATE, "--out", "viewfs://bucket/out", "--json"]
    shown = submit("local-cluster[2,1,1024]", wheel, stored, environment, *named)

    assert (shown["run"]["master"], shown["run"]["program_version"]) == ("local-cluster[2,1,1024]", VERSION)
    assert results(spark, tmp_path / "out") == expected
