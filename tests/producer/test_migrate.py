"""`fshipper migrate`: configurations as people have them become a producer's, and what has no counterpart is named."""

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from harness import forking
from harness.fleet import Fleet, until
from harness.ports import free_ports

from producer.foreign_config.app import run
from producer.foreign_config.options import MigrateOptions
from shipper.config import load
from shipper.errors import ShipperError

PROMTAIL = """
server: {http_listen_port: 9080, log_level: warn}
positions: {filename: /tmp/positions.yaml}
clients:
  - url: http://user:hunter2@loki:3100/loki/api/v1/push
scrape_configs:
  - job_name: system
    encoding: utf-16le
    static_configs:
      - targets: [localhost]
        labels: {job: varlogs, host: "${HOSTNAME}", __path__: /var/log/*.log, __path_exclude__: /var/log/boot.log}
    pipeline_stages:
      - drop: {expression: ".*healthz.*"}
      - drop: {source: level, value: debug, expression: "x"}
      - replace: {expression: "password=(\\\\S+)", replace: "***"}
      - regex: {expression: "^(?P<ts>\\\\S+)"}
"""
PROMTAIL_TWO = """
clients: [{url: "http://loki:3100"}]
scrape_configs:
  - job_name: a
    static_configs: [{labels: {job: a, __path__: "/var/log/a/*.log"}}]
    pipeline_stages: [{drop: {expression: noise}}]
  - job_name: b
    static_configs: [{labels: {job: b, __path__: "/var/log/{b,c}.log"}}, {labels: {job: b, __path__: /var/log/b.log}}]
  - job_name: journal
    journal: {max_age: 12h, matches: _SYSTEMD_UNIT=sshd.service, labels: {job: journal}}
  - job_name: net
    syslog: {listen_address: "0.0.0.0:1514"}
  - job_name: docker
    docker_sd_configs: [{host: "unix:///var/run/docker.sock"}]
"""
FLUENT_BIT = """
@SET root=/var/log
[SERVICE]
    Flush        1
    Log_Level    error
[INPUT] # a remark of its author
    Name              tail
    Path              ${root}/nginx/*.log, /var/log/app.log
    Exclude_Path      *.gz,/var/log/nginx/debug*
    DB                /var/log/flb.db
    Ignore_Older      2d
[INPUT]
    Name systemd
    Systemd_Filter _SYSTEMD_UNIT=docker.service
[INPUT]
    Name   syslog
    Mode   udp
    Listen 127.0.0.1
    Port   5140
[INPUT]
    Name cpu
[FILTER]
    Name grep
    Match *
    Exclude log health.*
[FILTER]
    Name grep
    Match *
    Regex status ^5
[FILTER]
    Name record_modifier
    Match *
    Record hostname ${HOSTNAME}
    Record env prod
[OUTPUT]
    Name forward
    Match *
"""
FLUENT_BIT_YAML = """
service: {log_level: info}
pipeline:
  inputs:
    - {name: tail, path: /var/log/a.log, read_from_head: true, tag: a}
  outputs:
    - {name: stdout, match: "*"}
"""
FILEBEAT = r"""
name: web1
filebeat.inputs:
- type: filestream
  id: nginx
  enabled: true
  paths: [/var/log/nginx/*.log, "relative.log"]
  prospector.scanner.exclude_files: ['\.gz$', '^/var/(a|b)']
  exclude_lines: ['^DBG', '(?=look)']
  ignore_older: 48h
  fields: {env: prod}
  parsers: [{multiline: {type: pattern, pattern: '^\[', negate: true}}]
- type: log
  enabled: false
  paths: [/var/log/off.log]
output.elasticsearch: {hosts: ["es:9200"], password: hunter2}
logging.level: debug
processors: [{add_host_metadata: ~}, {drop_event: {when: {equals: {x: 1}}}}]
"""
RSYSLOG = """
module(load="imuxsock") # "local" messages
#module(load="imklog")
module(load="imudp") module(load="imfile")
input(type="imudp" port="5514" address="127.0.0.1")
$ModLoad imtcp
$InputTCPServerRun 10514
$WorkDirectory /var/spool/rsyslog
input(type="imfile"
      File="/var/log/httpd/access#log" /* a # in a name */
      Tag="apache")
auth,authpriv.*\t\t/var/log/auth.log
*.*;auth,authpriv.none\t\t-/var/log/syslog
*.emerg\t\t:omusrmsg:*
:programname, isequal, "haproxy" /var/log/haproxy.log
& stop
if $programname == 'x' then { action(type="omfile" file="/var/log/x.log") stop }
*.* action(type="omfwd" target="loghost" port="514" protocol="tcp"
           queue.type="LinkedList")
*.* @@rsyslog:514
"""
RSYSLOG_FORWARDS = 'module(load="imuxsock")\nmodule(load="imklog")\n*.* @@loghost:514\n'
VECTOR = """
data_dir: /var/lib/vector
sources:
  app: {type: file, include: [/var/log/app/*.log], exclude: [/var/log/app/debug.log], read_from: end,
        ignore_older_secs: 600, multiline: {start_pattern: "^x", mode: halt_before}}
  units: {type: journald, include_units: [sshd]}
  metrics: {type: internal_metrics}
transforms:
  parse: {type: remap, inputs: [app], source: ". = parse_json!(.message)"}
  clean: {type: remap, inputs: [parse], source: "redact(.message, filters: [r'x'])"}
sinks: {out: {type: loki, inputs: [clean], endpoint: "http://loki"}}
"""
VECTOR_TOML = """
[sources.in]
type = "file"
include = ["/var/log/*.log"]
[sinks.out]
type = "console"
inputs = ["in"]
"""

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 20))
BOMB += "filebeat.inputs: [{type: log, paths: *a19}]\n"

EXAMPLES = {
    "promtail.yaml": (
        PROMTAIL,
        {
            "producer.files": ["/var/log/*.log"],
            "producer.exclude": ["/var/log/boot.log"],
            "producer.charset": "utf-16-le",
            "producer.drop_lines": [".*healthz.*"],
            "producer.redact": ["password=(\\S+)"],
            "producer.labels.job": "varlogs",
            "log.level": "warning",
        },
        {"no counterpart": {"scrape_configs[0].pipeline_stages.1.drop.expression"}, "replaced": {"clients[0]"}},
    ),
    "config.yml": (
        PROMTAIL_TWO,
        {
            "producer.files": ["/var/log/a/*.log", "/var/log/b.log"],
            "producer.journald": "text",
            "producer.journald_match": ["_SYSTEMD_UNIT=sshd.service"],
            "producer.syslog": ["tcp:0.0.0.0:1514"],
        },
        {
            "no counterpart": {
                "scrape_configs[0].static_configs.0.labels.job",
                "scrape_configs[0].pipeline_stages.0.drop.expression",
                "scrape_configs[1].static_configs.0.labels.job",
                "scrape_configs[1].static_configs.1.labels.job",
                "scrape_configs[1].static_configs.0.labels.__path__",
                "scrape_configs[2].journal.max_age",
                "scrape_configs[2].journal.labels.job",
                "scrape_configs[4].docker_sd_configs.0.host",
            }
        },
    ),
    "fluent-bit.conf": (
        FLUENT_BIT,
        {
            "producer.files": ["/var/log/nginx/*.log", "/var/log/app.log"],
            "producer.exclude": ["/**/*.gz", "/var/log/nginx/debug*"],
            "producer.start_at_end": True,
            "producer.ignore_older": 172800.0,
            "producer.drop_lines": ["health.*"],
            "producer.labels.env": "prod",
            "producer.syslog": ["udp:127.0.0.1:5140"],
            "producer.journald": "text",
            "producer.journald_match": ["_SYSTEMD_UNIT=docker.service"],
            "log.level": "error",
        },
        {"no counterpart": {"[INPUT] 4", "[FILTER] 2.Regex"}, "replaced": {"[OUTPUT] 1"}},
    ),
    "fluent-bit.yaml": (FLUENT_BIT_YAML, {"producer.files": ["/var/log/a.log"], "log.level": "info"}, {}),
    "filebeat.yml": (
        FILEBEAT,
        {
            "producer.host": "web1",
            "producer.files": ["/var/log/nginx/*.log"],
            "producer.exclude": ["/**/*.gz"],
            "producer.drop_lines": ["^DBG"],
            "producer.ignore_older": 172800.0,
            "producer.labels.env": "prod",
            "log.level": "debug",
        },
        {
            "no counterpart": {
                "filebeat.inputs[0].paths.1",
                "filebeat.inputs[0].prospector.scanner.exclude_files.1",
                "filebeat.inputs[0].exclude_lines.1",
                "processors[1].drop_event.when.equals.x",
            },
            "replaced": {"output.elasticsearch"},
        },
    ),
    "rsyslog.conf": (
        RSYSLOG,
        {
            "producer.files": [
                "/var/log/httpd/access#log",
                "/var/log/x.log",
                "/var/log/auth.log",
                "/var/log/syslog",
                "/var/log/haproxy.log",
            ],
            "producer.syslog": ["udp:127.0.0.1:5514", "tcp:0.0.0.0:10514"],
        },
        {
            "no counterpart": {
                "input imfile.copies",
                "*.emerg :omusrmsg:*",
                "stop",
                "if $programname == 'x' then { stop",
            },
            "replaced": {"input imudp.port", "$InputTCPServerRun.port", "action omfwd", "*.* @@rsyslog:514"},
        },
    ),
    "50-default.conf": (RSYSLOG_FORWARDS, {"producer.journald": "syslog"}, {"replaced": {"*.* @@loghost:514"}}),
    "vector.yaml": (
        VECTOR,
        {
            "producer.files": ["/var/log/app/*.log"],
            "producer.exclude": ["/var/log/app/debug.log"],
            "producer.start_at_end": True,
            "producer.ignore_older": 600.0,
            "producer.journald": "text",
            "producer.journald_match": ["_SYSTEMD_UNIT=sshd.service"],
        },
        {"no counterpart": {"transforms.clean.source"}, "replaced": {"sinks.out"}},
    ),
    "vector.toml": (VECTOR_TOML, {"producer.files": ["/var/log/*.log"]}, {"replaced": {"sinks.out"}}),
}


def migrated(path: Path, capsys) -> dict:
    assert run(MigrateOptions(file=path, as_json=True)) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_has_a_counterpart_becomes_a_setting_and_the_rest_is_named(name, tmp_path, capsys):
    text, settings, notes = EXAMPLES[name]
    path = tmp_path / name
    path.write_text(text)
    found = migrated(path, capsys)
    assert found["settings"] == settings
    places = {
        outcome: {note["place"] for note in found["notes"] if note["outcome"] == outcome}
        for outcome in ("no counterpart", "replaced")
    }
    for outcome, expected in notes.items():
        assert places[outcome] == expected
    assert places["no counterpart"] == notes.get("no counterpart", set())
    assert "hunter2" not in json.dumps(found), "no password is repeated"


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_written_is_a_configuration_and_each_value_names_its_line(name, tmp_path, capsys):
    text, settings, _ = EXAMPLES[name]
    path, output = tmp_path / name, tmp_path / "producer.toml"
    path.write_text(text)
    assert run(MigrateOptions(file=path, output=output)) == 0
    assert "hunter2" not in capsys.readouterr().err
    producer = load({}, config=output, environment={}).producer
    assert list(producer.files) == settings.get("producer.files", [])
    assert producer.drop_lines == tuple(settings.get("producer.drop_lines", ()))
    assert producer.ignore_older == settings.get("producer.ignore_older", 0.0)
    if not name.endswith(".toml"):  # its reader has no lines
        lines = text.splitlines()
        for written in output.read_text().splitlines():
            value, _, line = written.partition("  # line ")
            if line and '"/var' in value:
                assert Path(json.loads(value.strip().rstrip(","))).name in lines[int(line) - 1]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("x.conf", "nothing known", "whose configuration x.conf is"),
        ("promtail.yaml", "scrape_configs: [", "is no YAML"),
        ("promtail.yaml", "scrape_configs:\nserver: {}", "has no input of promtail"),
        ("filebeat.yml", "filebeat.inputs: &a\n- *a", "nested too deeply"),
        ("filebeat.yml", BOMB, "more than 10000 values"),
        ("vector.toml", "[sources.a]\ntype = ", "is no TOML"),
        ("fluent-bit.conf", "Name tail\n[INPUT]\n", "stands before the first [SECTION]"),
        ("promtail.yaml", "scrape_configs:\0", "it is binary"),
        ("none.yaml", None, "No such file"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_the_next_step(tmp_path, name, content, text):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(ShipperError) as raised:
        run(MigrateOptions(file=path))
    assert text in str(raised.value)
    assert raised.value.hint


def test_a_file_that_exists_is_not_replaced(tmp_path):
    path, output = tmp_path / "promtail.yaml", tmp_path / "producer.toml"
    path.write_text(PROMTAIL)
    output.write_text("mine")
    with pytest.raises(ShipperError, match="exists already"):
        run(MigrateOptions(file=path, output=output))
    assert output.read_text() == "mine"


def test_included_files_are_read_too_once_each(tmp_path, capsys):
    (tmp_path / "rsyslog.d").mkdir()
    (tmp_path / "rsyslog.d/a.conf").write_text(f'include(file="{tmp_path}/rsyslog.conf")\n*.* /var/log/a.log\n')
    (tmp_path / "rsyslog.conf").write_text("$ModLoad imuxsock\n$IncludeConfig rsyslog.d/*.conf\n")
    assert migrated(tmp_path / "rsyslog.conf", capsys)["settings"] == {"producer.files": ["/var/log/a.log"]}
    (tmp_path / "inputs.conf").write_text("[INPUT]\n Name tail\n Path /var/log/b.log\n@INCLUDE fluent-bit.conf\n")
    (tmp_path / "fluent-bit.conf").write_text("[SERVICE]\n Flush 1\n@INCLUDE inputs.conf\n")
    found = migrated(tmp_path / "fluent-bit.conf", capsys)["settings"]
    assert found == {"producer.files": ["/var/log/b.log"], "producer.start_at_end": True}


def test_the_command_prints_the_configuration_and_beside_it_what_to_decide(tmp_path):
    (tmp_path / "filebeat.yml").write_text(FILEBEAT)
    ended = forking.run(["migrate", str(tmp_path / "filebeat.yml")], env=dict(os.environ), within=60)
    assert ended.returncode == 0
    assert ended.stdout.startswith("# Made by `fshipper migrate` from filebeat.yml (filebeat).")
    assert "No counterpart; decide on each:" in ended.stderr
    assert "line 12: filebeat.inputs[0].fields.env" not in ended.stderr
    assert "fshipper audit" in ended.stderr


# -- in parallel with the real rsyslog ---------------------------------------------------------------------------------


def test_a_producer_ships_what_the_real_rsyslog_writes_until_the_audit_agrees(tmp_path, natsd):
    program = shutil.which("rsyslogd") or shutil.which("rsyslogd", path="/usr/sbin")
    if program is None:
        pytest.skip("the real rsyslog is not installed: package rsyslog")
    port, other = free_ports(2)
    written = tmp_path / "messages.log"
    config = tmp_path / "rsyslog.conf"
    config.write_text(
        f'module(load="imudp")\ninput(type="imudp" address="127.0.0.1" port="{port}")\n'
        f"$WorkDirectory {tmp_path}\n*.* {written}\n"
    )
    output = tmp_path / "producer.toml"
    assert run(MigrateOptions(file=config, output=output)) == 0
    # the port is rsyslog's while both run, as the notes advise
    output.write_text(output.read_text().replace(f"udp:127.0.0.1:{port}", f"udp:127.0.0.1:{other}"))
    rsyslog = subprocess.Popen([program, "-n", "-f", str(config), "-i", str(tmp_path / "pid")])
    try:
        with (
            Fleet(tmp_path, natsd.url, partitions=1) as fleet,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            fleet.apply()
            producer = fleet.start("produce", "--config", str(output), HOSTNAME="web1.example.net")
            for number in range(200):
                message = f"<13>Nov 28 10:00:00 web1 app: line {number}".encode()
                sender.sendto(message, ("127.0.0.1", port))
                if number == 0:
                    until(lambda: written.exists() and b"line 0" in written.read_bytes(), what="rsyslog listens")
            until(lambda: written.read_bytes().count(b"\n") == 200, what=lambda: written.read_text()[-500:])
            fleet.consume()
            until(
                lambda: fleet.archived("web1.example.net", written) == written.read_bytes(), what=lambda: producer.log
            )
            assert fleet.run("audit", str(fleet.archive), "--hosts").returncode == 0
    finally:
        rsyslog.terminate()
        rsyslog.wait(30)
