"""`fshipper migrate`: configurations of other shippers, what becomes of them, and what has no counterpart."""

import json
import shutil
import subprocess
import tomllib

import pytest
from harness.fleet import Fleet, until

from producer.migrate.app import run
from producer.migrate.options import MigrateOptions
from shipper.config import load
from shipper.errors import ConfigError, UsageError

HOST = "web1.example"

PROMTAIL = r"""
server:
  http_listen_port: 9080
positions:
  filename: /var/lib/promtail/positions.yaml
clients:
  - url: https://loki.example/push
    external_labels: {site: berlin}
scrape_configs:
  - job_name: shop
    static_configs:
      - targets: [localhost]
        labels:
          job: shop
          __path__: /srv/shop/{api,web}/*.log
          __path_exclude__: /srv/shop/api/debug.log
    pipeline_stages:
      - drop:
          expression: "GET /healthz"
      - regex:
          expression: '^(?P<level>\w+)'
      - multiline:
          firstline: '^\d'
  - job_name: journal
    journal:
      matches: _SYSTEMD_UNIT=shop.service
  - job_name: pods
    kubernetes_sd_configs: [{role: pod}]
"""
FILEBEAT = r"""
filebeat.inputs:
  - type: filestream
    id: shop
    paths:
      - /srv/shop/*.log
    prospector.scanner.exclude_files: ['\.gz$']
    exclude_lines: ['^DEBUG']
    ignore_older: 72h
    fields: {team: shop}
    parsers:
      - multiline: {type: pattern, pattern: '^\['}
  - type: log
    enabled: false
    paths: [/srv/off.log]
  - type: syslog
    protocol.udp:
      host: "127.0.0.1:9514"
processors:
  - add_host_metadata: ~
  - drop_event:
      when.regexp.message: 'kube-probe'
output.elasticsearch:
  hosts: ["https://es.example:9200"]
"""
VECTOR_TOML = """
data_dir = "/var/lib/vector"

[sources.shop]
type = "file"
include = ["/srv/shop/**/*.log"]
exclude = ["/srv/shop/**/*.tmp"]
ignore_older_secs = 86400
read_from = "end"

[sources.units]
type = "journald"
include_units = ["shop"]

[transforms.parse]
type = "remap"
inputs = ["shop"]
source = '. = parse_json!(.message)'

[sinks.out]
type = "http"
inputs = ["parse"]
uri = "https://logs.example"
"""
VECTOR_YAML = """
sources:
  shop:
    type: file
    include:
      - /srv/shop/app.log
  containers:
    type: docker_logs
"""
FLUENT_BIT = r"""
[SERVICE]
    Flush        1
@INCLUDE outputs.conf
[INPUT]
    Name          tail
    Path          /srv/shop/*.log, /srv/api/*.log
    Exclude_Path  *.gz,*.zip
    Ignore_Older  2d
    Read_from_Head On
    Parser        json
    DB            /var/lib/fluent-bit/shop.db
[INPUT]
    Name            systemd
    Systemd_Filter  _SYSTEMD_UNIT=shop.service
[FILTER]
    Name     grep
    Match    *
    Exclude  log  ^DEBUG
[FILTER]
    Name     record_modifier
    Match    *
    Record   site berlin
[OUTPUT]
    Name   es
    Match  *
"""
FLUENT_BIT_YAML = """
pipeline:
  inputs:
    - name: tail
      path: /srv/shop/app.log
      read_from_head: true
  outputs:
    - name: stdout
"""
RSYSLOG = r"""
# what this host ships
module(load="imfile" PollingInterval="5")
module(load="imudp")
input(type="imfile"
      File="/srv/shop/*.log"    /* all of the shop */
      Tag="shop:")
input(type="imudp" port="5514")
$IncludeConfig /etc/rsyslog.d/*.conf
auth,authpriv.*     /var/log/auth.log
*.*;auth.none       -/var/log/syslog
if $programname == 'cron' then stop
*.* action(type="omfwd" target="logs.example" port="514" protocol="tcp")
local7.* @@logs.example:514
"""
EXPECTED = {
    "promtail.yaml": (
        PROMTAIL,
        {
            "files": ["/srv/shop/api/*.log", "/srv/shop/web/*.log"],
            "exclude": ["/srv/shop/api/debug.log"],
            "drop_lines": ["GET /healthz"],
            "labels": {"site": "berlin", "job": "shop"},
            "journald": "text",
            "journald_match": ["_SYSTEMD_UNIT=shop.service"],
        },
        {4: "positions", 7: "clients", 19: "drop", 20: "pipeline_stages: regex", 22: "multiline", 28: "kubernetes_sd_"},
    ),
    "filebeat.yml": (
        FILEBEAT,
        {
            "files": ["/srv/shop/*.log"],
            "exclude": ["*.gz"],
            "drop_lines": ["^DEBUG", "kube-probe"],
            "ignore_older": "72h",
            "labels": {"team": "shop"},
            "syslog": ["udp:127.0.0.1:9514"],
        },
        {11: "parsers", 13: "input", 20: "processors: add_host_metadata", 23: "output"},
    ),
    "vector.toml": (
        VECTOR_TOML,
        {
            "files": ["/srv/shop/**/*.log"],
            "exclude": ["/srv/shop/**/*.tmp"],
            "ignore_older": "86400s",
            "start_at_end": True,
            "journald": "text",
            "journald_match": ["_SYSTEMD_UNIT=shop.service"],
        },
        {15: "transforms.parse (remap)", 20: "sinks.out"},
    ),
    "vector.yaml": (VECTOR_YAML, {"files": ["/srv/shop/app.log"]}, {7: "sources.containers (docker_logs)"}),
    "fluent-bit.conf": (
        FLUENT_BIT,
        {
            "files": ["/srv/shop/*.log", "/srv/api/*.log"],
            "exclude": ["*.gz", "*.zip"],
            "ignore_older": "2d",
            "journald": "text",
            "journald_match": ["_SYSTEMD_UNIT=shop.service"],
            "drop_lines": ["^DEBUG"],
            "labels": {"site": "berlin"},
        },
        {4: "@INCLUDE", 11: "tail: parser", 19: "grep: exclude", 24: "[OUTPUT] es"},
    ),
    "fluent-bit.yaml": (FLUENT_BIT_YAML, {"files": ["/srv/shop/app.log"]}, {8: "[OUTPUT] stdout"}),
    "rsyslog.conf": (
        RSYSLOG,
        {"files": ["/srv/shop/*.log", "/var/log/auth.log", "/var/log/syslog"], "syslog": ["udp:[::]:5514"]},
        {
            5: "imfile tag", 8: "imudp", 9: "$IncludeConfig", 10: "auth,authpriv.*", 11: "*.*;auth.none",
            12: "if $programname", 13: "action omfwd", 14: "local7.* @@logs.example:514",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_a_configuration_becomes_one_that_a_producer_takes_and_the_rest_has_its_line(name, tmp_path, capsys):
    text, settings, remarks = EXPECTED[name]
    path = tmp_path / name
    path.write_text(text)
    output = tmp_path / "producer.toml"
    assert run(MigrateOptions(configs=[path], output=output)) == 0
    assert tomllib.loads(output.read_text()) == {"producer": settings}
    load({}, config=output, environment={})  # every setting is known and valid

    assert run(MigrateOptions(configs=[path], as_json=True)) == 0
    shown = json.loads(capsys.readouterr().out)
    found = {(remark["line"], remark["setting"]) for remark in shown["remarks"]}
    for line, setting in remarks.items():
        assert any(at == line and each.startswith(setting) for at, each in found), (line, setting, sorted(found))
    assert all(remark["text"] for remark in shown["remarks"])


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("a.yaml", "a: [", ConfigError, "line 1"),
        ("a.yaml", "{{ range .Values }}", UsageError, "no configuration of a known shipper"),
        ("a.toml", "a = \nb = 1", ConfigError, "line 1"),
        ("a.yaml", "hello: 1", UsageError, "no configuration of a known shipper"),
        ("a.conf", "hello", UsageError, "no configuration of a known shipper"),
        ("a.yaml", "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(9)
        ), ConfigError, "more than 100,000 values"),
        ("none.yaml", None, ConfigError, "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_no_configuration_ends_with_the_place_and_a_next_step(name, text, error, message, tmp_path):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(error) as raised:
        run(MigrateOptions(configs=[path]))
    assert message in str(raised.value)
    assert raised.value.hint


def test_nothing_to_ship_ends_with_2_and_a_file_is_never_overwritten(tmp_path, capsys):
    path = tmp_path / "promtail.yaml"
    path.write_text("scrape_configs:\n  - job_name: x\n    docker_sd_configs: [{host: a}]\n")
    assert run(MigrateOptions(configs=[path])) == 2
    assert "nothing to ship" in capsys.readouterr().err
    with pytest.raises(UsageError):
        run(MigrateOptions(configs=[path], output=path))


@pytest.mark.skipif(shutil.which("rsyslogd") is None, reason="needs rsyslogd (package rsyslog)")
def test_it_runs_beside_a_real_rsyslog_until_the_audit_agrees(tmp_path, natsd):
    """rsyslog and a producer with the migrated configuration read the same files: both have every line."""
    logs, collected = tmp_path / "logs", tmp_path / "collected"
    for path in (logs, tmp_path / "work"):
        path.mkdir()
    config = tmp_path / "rsyslog.conf"
    config.write_text(f"""
global(workDirectory="{tmp_path}/work")
module(load="imfile" mode="inotify")
module(load="omprog")
template(name="raw" type="string" string="%msg%\\n")
input(type="imfile" File="{logs}/*.log" Tag="shop:" ruleset="out" addMetadata="off")
ruleset(name="out") {{
  action(type="omfwd" target="127.0.0.1" port="1" protocol="udp")
  action(type="omprog" binary="/usr/bin/tee -a {collected}" template="raw")
}}
""")
    subprocess.run(["rsyslogd", "-N1", "-f", config], check=True, capture_output=True)
    with Fleet(tmp_path, natsd.url, partitions=1) as fleet:
        fleet.apply()
        ours = tmp_path / "producer.toml"
        fleet.must("migrate", str(config), "--output", str(ours))
        assert tomllib.loads(ours.read_text())["producer"] == {"files": [f"{logs}/*.log"]}
        lines = {logs / f"{name}.log": [f"{name} line {n}" for n in range(500)] for name in ("api", "web")}
        with subprocess.Popen(["rsyslogd", "-n", "-f", config, "-i", tmp_path / "pid"]) as rsyslog:
            try:
                fleet.consume()
                fleet.start("produce", "--config", str(ours), HOSTNAME=HOST)
                for path, text in lines.items():
                    path.write_text("".join(f"{line}\n" for line in text))
                wanted = sorted(line for text in lines.values() for line in text)
                until(lambda: collected.exists() and sorted(collected.read_text().split("\n"))[1:] == wanted)
                until(lambda: fleet.run("wait", "--timeout", "5s").returncode == 0)
            finally:
                rsyslog.terminate()
        fleet.must("audit", "--hosts")
        for path in lines:
            assert fleet.archived(HOST, path) == path.read_bytes()
