"""Lines of the formats that tools write most, with the time, the zone and the level that each has.

The data of `docs/reference/formats.md` and of `tests/spark/test_formats.py`.
"""

# ruff: noqa: E501 - lines of logs

from typing import NamedTuple

TEN = "2026-11-28T10:00:00"
"""The time in most of the lines."""


class Example(NamedTuple):
    """A line, and what is in it. `time`: UTC, seconds; empty: none of its own."""

    name: str
    line: str
    time: str
    zone: str  #: as in the line; empty: of the host
    level: str


EXAMPLES = (
    Example("syslog, RFC 3164", "<11>Nov 28 10:00:00 web1 app[123]: cannot open the file", TEN, "", "error"),
    Example("syslog, file of rsyslog", "Nov 28 10:00:00 web1 systemd[1]: Started Daily apt upgrade.", TEN, "", "none"),
    Example(
        "syslog, RFC 5424", "<165>1 2026-11-28T11:00:00.003+01:00 web1 app 8710 - - started", TEN, "+01:00", "notice"
    ),
    Example(
        "syslog, high precision",
        "2026-11-28T10:00:00.123456+00:00 web1 sshd[99]: error: kex_exchange_identification: closed",
        TEN,
        "+00:00",
        "error",
    ),
    Example(
        "sshd", "Nov 28 10:00:00 web1 sshd[99]: Failed password for root from 10.0.0.9 port 4022 ssh2", TEN, "", "none"
    ),
    Example(
        "Postfix",
        "Nov 28 10:00:00 mx1 postfix/smtpd[1234]: fatal: open database /etc/aliases.db: No such file",
        TEN,
        "",
        "fatal",
    ),
    Example(
        "Postfix, warning",
        "Nov 28 10:00:00 mx1 postfix/smtpd[1234]: warning: hostname a.example does not resolve",
        TEN,
        "",
        "warn",
    ),
    Example(
        "Dovecot", "Nov 28 10:00:00 mx1 dovecot: imap-login: Error: SSL context initialization failed", TEN, "", "error"
    ),
    Example(
        "Dovecot, own file",
        "Nov 28 10:00:00 imap(bob)<123><x>: Panic: file mail-index.c: line 1 (f): assertion failed",
        TEN,
        "",
        "fatal",
    ),
    Example("cron", "Nov 28 10:00:00 web1 CRON[4021]: (root) CMD (run-parts /etc/cron.hourly)", TEN, "", "none"),
    Example(
        "kernel, ext4",
        "Nov 28 10:00:00 web1 kernel: [12345.678901] EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2",
        TEN,
        "",
        "error",
    ),
    Example(
        "kernel, btrfs", "Nov 28 10:00:00 web1 kernel: BTRFS warning (device sdb): csum failed root 5", TEN, "", "warn"
    ),
    Example(
        "ufw",
        "Nov 28 10:00:00 web1 kernel: [123.456] [UFW BLOCK] IN=eth0 OUT= SRC=10.0.0.9 DST=10.0.0.1 PROTO=TCP",
        TEN,
        "",
        "none",
    ),
    Example("dmesg", "[12345.678901] usb 1-1: new high-speed USB device number 2", "", "", "none"),
    Example(
        "dmesg -T",
        "[Sat Nov 28 10:00:00 2026] EXT4-fs warning (device sda1): maximal mount count reached",
        TEN,
        "",
        "warn",
    ),
    Example(
        "common log format",
        '10.0.0.1 - - [28/Nov/2026:11:00:00 +0100] "GET /error HTTP/1.1" 200 512',
        TEN,
        "+0100",
        "info",
    ),
    Example(
        "combined log format",
        '10.0.0.1 - bob [28/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 502 0 "-" "curl/8"',
        TEN,
        "+0000",
        "error",
    ),
    Example(
        "nginx, error log",
        '2026/11/28 10:00:00 [error] 12#12: *1 open() "/srv/x" failed (2: No such file or directory)',
        TEN,
        "",
        "error",
    ),
    Example("nginx, emergency", "2026/11/28 10:00:00 [emerg] 12#12: bind() to 0.0.0.0:80 failed", TEN, "", "fatal"),
    Example(
        "Apache 2.4, error log",
        "[Sat Nov 28 10:00:00.123456 2026] [core:error] [pid 12:tid 34] AH00037: Symbolic link not allowed",
        TEN,
        "",
        "error",
    ),
    Example(
        "Apache 2.2, error log",
        "[Sat Nov 28 10:00:00 2026] [warn] module php5_module is already loaded",
        TEN,
        "",
        "warn",
    ),
    Example(
        "HAProxy",
        "Nov 28 10:00:00 lb1 haproxy[123]: 10.0.0.9:51000 [28/Nov/2026:10:00:00.123] www web/s1 0/0/0/1/1 200 512",
        TEN,
        "",
        "none",
    ),
    Example(
        "HAProxy, stderr",
        "[ALERT]    (1234) : config : parsing [/etc/haproxy.cfg:12] : unknown keyword",
        "",
        "",
        "fatal",
    ),
    Example(
        "PostgreSQL",
        "2026-11-28 07:00:00.123 -03 [7484] app@db FATAL:  password authentication failed",
        TEN,
        "-03",
        "fatal",
    ),
    Example(
        "PostgreSQL, LOG",
        "2026-11-28 10:00:00.123 UTC [7484] LOG:  database system is ready to accept connections",
        TEN,
        "UTC",
        "info",
    ),
    Example(
        "PostgreSQL, PANIC", "2026-11-28 11:00:00.123 CET [7484] PANIC:  could not write to file", TEN, "CET", "fatal"
    ),
    Example(
        "PostgreSQL, CSV",
        '2026-11-28 13:00:00.123 MSK,"app","db",7484,"10.0.0.1:5000",5f,1,"SELECT",2026-11-28 12:59:00 MSK,3/4,0,ERROR,42P01,"no table"',
        TEN,
        "MSK",
        "error",
    ),
    Example("MySQL 8", "2026-11-28T10:00:00.123456Z 0 [ERROR] [MY-010119] [Server] Aborting", TEN, "Z", "error"),
    Example(
        "MySQL 5.5", "261128 10:00:00 [ERROR] /usr/sbin/mysqld: Table './a/b' is marked as crashed", TEN, "", "error"
    ),
    Example(
        "MySQL 5.5, before ten",
        "261128  9:00:00 [Note] Event Scheduler: Loaded 0 events",
        "2026-11-28T09:00:00",
        "",
        "notice",
    ),
    Example("MariaDB", "2026-11-28 10:00:00 331 [ERROR] InnoDB: page corrupt", TEN, "", "error"),
    Example(
        "MariaDB, before ten",
        "2026-11-28  0:01:05 331 [Warning] Aborted connection 331 to db",
        "2026-11-28T00:01:05",
        "",
        "warn",
    ),
    Example(
        "MongoDB",
        '{"t":{"$date":"2026-11-28T10:00:00.180+00:00"},"s":"E","c":"STORAGE","id":1,"ctx":"x","msg":"WiredTiger error"}',
        TEN,
        "+00:00",
        "error",
    ),
    Example(
        "MongoDB before 4.4",
        "2026-11-28T10:00:00.180+0000 W NETWORK  [listener] Failed to connect",
        TEN,
        "+0000",
        "warn",
    ),
    Example(
        "Redis",
        "1234:M 28 Nov 2026 10:00:00.123 # Can't save in background: fork: Cannot allocate memory",
        TEN,
        "",
        "warn",
    ),
    Example("Redis, notice", "1234:M 28 Nov 2026 10:00:00.123 * Ready to accept connections", TEN, "", "notice"),
    Example("Redis 2", "[1234] 28 Nov 10:00:00.123 - DB 0: 1 keys (0 volatile) in 4 slots HT.", TEN, "", "info"),
    Example(
        "Tomcat",
        "28-Nov-2026 10:00:00.123 SEVERE [main] org.apache.catalina.core.StandardService.initInternal Failed",
        TEN,
        "",
        "error",
    ),
    Example(
        "java.util.logging", "Nov 28, 2026 10:00:00 AM org.apache.catalina.startup.Catalina start", TEN, "", "none"
    ),
    Example("log4j", "2026-11-28 10:00:00,123 ERROR [main] com.example.App - request failed", TEN, "", "error"),
    Example(
        "log4j 2, JSON",
        '{"instant":{"epochSecond":1795860000,"nanoOfSecond":123000000},"thread":"main","level":"ERROR","message":"x"}',
        TEN,
        "",
        "error",
    ),
    Example(
        "logback", "2026-11-28 10:00:00.123 [http-1] WARN  c.e.App - no error here, error_count=0", TEN, "", "warn"
    ),
    Example(
        "Spring Boot 3",
        "2026-11-28T11:00:00.123+01:00  INFO 1 --- [main] com.example.App : Started in 2 s",
        TEN,
        "+01:00",
        "info",
    ),
    Example("Java GC", "[2026-11-28T10:00:00.123+0000][0.005s][info][gc] Using G1", TEN, "+0000", "info"),
    Example("Java GC, padded", "[2026-11-28T10:00:00.123+0000][warning][gc   ] GC overhead", TEN, "+0000", "warn"),
    Example("Python logging", "2026-11-28 10:00:00,123 - app - CRITICAL - no disk", TEN, "", "fatal"),
    Example("Python logging, default", "ERROR:root:no disk", "", "", "error"),
    Example("Go log", "2026/11/28 10:00:00 main.go:23: listening on :8080", TEN, "", "none"),
    Example("Go zap, JSON", '{"level":"error","ts":1795860000.123,"caller":"a.go:1","msg":"failed"}', TEN, "", "error"),
    Example("Go zap, console", "2026-11-28T10:00:00.123Z\tERROR\tapp/main.go:12\tfailed", TEN, "Z", "error"),
    Example("Go zap, small letters", "2026-11-28T10:00:00.123Z\twarn\tapp/main.go:12\tslow", TEN, "Z", "warn"),
    Example("Go zerolog", '{"level":"warn","time":1795860000,"message":"slow"}', TEN, "", "warn"),
    Example(
        "Go zerolog, console",
        "\x1b[90m2026-11-28T10:00:00Z\x1b[0m \x1b[31mERR\x1b[0m failed \x1b[36merror=\x1b[0mtimeout",
        TEN,
        "Z",
        "error",
    ),
    Example("Go slog, text", 'time=2026-11-28T10:00:00.123Z level=WARN msg="slow"', TEN, "Z", "warn"),
    Example(
        "Go slog, JSON", '{"time":"2026-11-28T10:00:00.123456789Z","level":"ERROR","msg":"failed"}', TEN, "Z", "error"
    ),
    Example("logrus", 'time="2026-11-28T10:00:00Z" level=fatal msg="no disk"', TEN, "Z", "fatal"),
    Example("logrus on a terminal", "ERRO[0012] no disk", "", "", "error"),
    Example("klog", "E1128 10:00:00.123456    1234 server.go:56] failed", TEN, "", "error"),
    Example("glog with a year", "W20261128 10:00:00.123456  1234 server.cc:56] slow", TEN, "", "warn"),
    Example("Rust tracing", "2026-11-28T10:00:00.123456Z  WARN my_crate::db: slow", TEN, "Z", "warn"),
    Example(
        "Rust tracing, coloured",
        "\x1b[2m2026-11-28T10:00:00.123456Z\x1b[0m \x1b[31mERROR\x1b[0m \x1b[2mapp\x1b[0m: failed",
        TEN,
        "Z",
        "error",
    ),
    Example("Rust env_logger", "[2026-11-28T10:00:00Z ERROR app] failed", TEN, "Z", "error"),
    Example(".NET console", "fail: Microsoft.AspNetCore.Server.Kestrel[13]", "", "", "error"),
    Example(".NET console, critical", "crit: App.Worker[0] no disk", "", "", "fatal"),
    Example(".NET console with a time", "2026-11-28T10:00:00 warn: App.Worker[0] slow", TEN, "", "warn"),
    Example("Serilog", "2026-11-28 11:00:00.123 +01:00 [ERR] Request failed", TEN, "+01:00", "error"),
    Example(
        "Serilog, compact JSON",
        '{"@t":"2026-11-28T10:00:00.1234567Z","@mt":"Request {Id} failed","@l":"Error"}',
        TEN,
        "Z",
        "error",
    ),
    Example(
        "Serilog, compact JSON without a level",
        '{"@t":"2026-11-28T10:00:00.1234567Z","@mt":"Started"}',
        TEN,
        "Z",
        "info",
    ),
    Example(
        "GELF",
        '{"version":"1.1","host":"web1","short_message":"failed","timestamp":1795860000.123,"level":3}',
        TEN,
        "",
        "error",
    ),
    Example(
        "Docker json-file",
        '{"log":"ERROR request 7 failed\\n","stream":"stderr","time":"2026-11-28T10:00:00.123456789Z"}',
        TEN,
        "Z",
        "error",
    ),
    Example(
        "Docker json-file, JSON in it",
        '{"log":"{\\"level\\":\\"warn\\",\\"msg\\":\\"slow\\"}\\n","stream":"stdout","time":"2026-11-28T10:00:00.1Z"}',
        TEN,
        "Z",
        "warn",
    ),
    Example(
        "Docker json-file, coloured",
        '{"log":"\\u001b[33mWARN\\u001b[0m slow\\n","stream":"stdout","time":"2026-11-28T10:00:00.1Z"}',
        TEN,
        "Z",
        "warn",
    ),
    Example("CRI", "2026-11-28T10:00:00.123456789Z stderr F ERROR request failed", TEN, "Z", "error"),
    Example(
        "CRI, klog in it",
        "2026-11-28T10:00:00.123456789Z stderr F E1128 10:00:00.123456       1 reflector.go:138] failed",
        TEN,
        "Z",
        "error",
    ),
    Example(
        "journald, JSON",
        '{"MESSAGE":"disk failed","PRIORITY":"3","SYSLOG_IDENTIFIER":"app","__CURSOR":"s=1;i=2","__REALTIME_TIMESTAMP":"1795860000123456"}',
        TEN,
        "",
        "error",
    ),
    Example("journald, text", "2026-11-28T10:00:00.123456Z web1 app[12]: disk failed", TEN, "Z", "none"),
    Example("journald, syslog", "<27>2026-11-28T10:00:00.123456Z web1 app[12]: disk failed", TEN, "Z", "error"),
    Example(
        "ECS", '{"@timestamp":"2026-11-28T10:00:00.123Z","log.level":"error","message":"failed"}', TEN, "Z", "error"
    ),
    Example(
        "ECS, nested",
        '{"@timestamp":"2026-11-28T10:00:00.123Z","log":{"level":"warn","logger":"a"},"message":"slow"}',
        TEN,
        "Z",
        "warn",
    ),
    Example(
        "OpenTelemetry",
        '{"Timestamp":"2026-11-28T10:00:00Z","SeverityText":"ERROR","Body":"failed"}',
        TEN,
        "Z",
        "error",
    ),
    Example(
        "OpenTelemetry, number",
        '{"timeUnixNano":"1795860000123456789","severityNumber":17,"body":{"stringValue":"x"}}',
        TEN,
        "",
        "error",
    ),
    Example(
        "Windows event, text",
        "Error\t11/28/2026 10:00:00 AM\tService Control Manager\t7031\tNone\tThe service terminated",
        TEN,
        "",
        "error",
    ),
    Example(
        "Windows event, information",
        "Information\t11/28/2026 1:00:00 PM\tMicrosoft-Windows-Kernel\t1\tNone",
        "2026-11-28T13:00:00",
        "",
        "info",
    ),
    Example("Windows CBS", "2026-11-28 10:00:00, Info                  CBS    Loaded Servicing Stack", TEN, "", "info"),
    Example(
        "IIS", "2026-11-28 10:00:00 10.0.0.1 GET /error.aspx - 443 - 10.0.0.9 curl/8 - 200 0 0 12", TEN, "", "none"
    ),
    Example(
        "SQL Server", "2026-11-28 10:00:00.12 spid51      Error: 18456, Severity: 14, State: 38.", TEN, "", "error"
    ),
    Example(
        "auditd", "type=SYSCALL msg=audit(1795860000.123:456): arch=c000003e syscall=59 success=yes", TEN, "", "none"
    ),
    Example(
        "Cisco IOS",
        "*Nov 28 2026 10:00:00.123 UTC: %SYS-5-CONFIG_I: Configured from console by vty0",
        TEN,
        "UTC",
        "notice",
    ),
    Example(
        "Cisco IOS, sequence and zone",
        "000045: Nov 28 05:00:00.123 EST: %LINK-3-UPDOWN: Interface Gi0/1, changed state to down",
        TEN,
        "EST",
        "error",
    ),
    Example("Cisco ASA", "Nov 28 2026 10:00:00: %ASA-4-106023: Deny tcp src outside:10.0.0.9", TEN, "", "warn"),
    Example("dpkg", "2026-11-28 10:00:00 status installed libssl3:amd64 3.0.15", TEN, "", "none"),
    Example("apt", "Start-Date: 2026-11-28  10:00:00", TEN, "", "none"),
    Example("BIND", "28-Nov-2026 10:00:00.123 general: error: zone a.example/IN: loading failed", TEN, "", "error"),
    Example(
        "PHP",
        "[28-Nov-2026 10:00:00 UTC] PHP Fatal error:  Uncaught Error: Call to undefined function f()",
        TEN,
        "UTC",
        "fatal",
    ),
    Example(
        "PHP, IANA zone",
        "[28-Nov-2026 11:00:00 Europe/Berlin] PHP Warning:  Undefined variable $x",
        TEN,
        "Europe/Berlin",
        "warn",
    ),
    Example("php-fpm", "[28-Nov-2026 10:00:00] WARNING: [pool www] server reached pm.max_children", TEN, "", "warn"),
    Example("OpenVPN", "Sat Nov 28 10:00:00 2026 WARNING: no server certificate verification method", TEN, "", "warn"),
    Example("Samba", "[2026/11/28 10:00:00.123456,  0] ../source3/smbd/server.c:1734(main)", TEN, "", "error"),
    Example("Asterisk", "[Nov 28 10:00:00] ERROR[1234][C-00000001]: chan_sip.c:4321 handle: failed", TEN, "", "error"),
    Example(
        "CloudFront",
        "2026-11-28\t10:00:00\tFRA2-C1\t512\t10.0.0.9\tGET\td1.cloudfront.net\t/error\t200",
        TEN,
        "",
        "none",
    ),
    Example(
        "WebSphere",
        "[11/28/26 10:00:00:123 UTC] 0000000a WebContainer  E   SRVE0255E: a group has not been defined",
        TEN,
        "UTC",
        "error",
    ),
    Example(
        "squid",
        "1795860000.123     92 10.0.0.9 TCP_MISS/200 512 GET http://a.example/ - DIRECT/10.0.0.1 text/html",
        TEN,
        "",
        "none",
    ),
    Example("squid, cache.log", "2026/11/28 10:00:00| WARNING: Forwarding loop detected", TEN, "", "warn"),
    Example(
        "Varnish",
        '10.0.0.1 - - [28/Nov/2026:10:00:00 +0000] "GET http://a.example/ HTTP/1.1" 200 512 "-" "curl"',
        TEN,
        "+0000",
        "info",
    ),
    Example(
        "Elasticsearch",
        "[2026-11-28T10:00:00,123][WARN ][o.e.m.j.JvmGcMonitorService] [node-1] overhead",
        TEN,
        "",
        "warn",
    ),
    Example(
        "Kafka",
        "[2026-11-28 10:00:00,123] ERROR [ReplicaManager broker=1] Error processing append (kafka.server)",
        TEN,
        "",
        "error",
    ),
    Example("ZooKeeper", "2026-11-28 10:00:00,123 [myid:1] - WARN  [main:QuorumPeer@1] - slow", TEN, "", "warn"),
    Example(
        "RabbitMQ", "2026-11-28 11:00:00.123456+01:00 [error] <0.123.0> closing AMQP connection", TEN, "+01:00", "error"
    ),
    Example("RabbitMQ 3.6", "=WARNING REPORT==== 28-Nov-2026::10:00:00 ===", TEN, "", "warn"),
    Example(
        "Cassandra",
        "WARN  [main] 2026-11-28 10:00:00,123 StartupChecks.java:143 - jemalloc could not be preloaded",
        TEN,
        "",
        "warn",
    ),
    Example(
        "Jenkins",
        "2026-11-28 11:00:00.123+0100 [id=21]\tWARNING\thudson.model.Run#execute: failed",
        TEN,
        "+0100",
        "warn",
    ),
    Example(
        "GitLab",
        '{"severity":"ERROR","time":"2026-11-28T10:00:00.123Z","correlation_id":"x","message":"failed"}',
        TEN,
        "Z",
        "error",
    ),
    Example(
        "Envoy",
        "[2026-11-28 10:00:00.123][1][critical][main] [source/server/server.cc:117] error initializing",
        TEN,
        "",
        "fatal",
    ),
    Example("Traefik", "2026-11-28T10:00:00Z ERR Unable to obtain ACME certificate", TEN, "Z", "error"),
    Example(
        "Caddy",
        '{"level":"error","ts":1795860000.1234567,"logger":"http.log.error","msg":"dial tcp"}',
        TEN,
        "",
        "error",
    ),
    Example("Consul, Vault", "2026-11-28T10:00:00.123Z [WARN]  agent: Check is now critical", TEN, "Z", "warn"),
    Example(
        "etcd",
        '{"level":"warn","ts":"2026-11-28T10:00:00.123456Z","caller":"a.go:1","msg":"slow fdatasync"}',
        TEN,
        "Z",
        "warn",
    ),
    Example("Prometheus", 'ts=2026-11-28T10:00:00.123Z caller=main.go:1 level=error msg="failed"', TEN, "Z", "error"),
    Example(
        "Grafana",
        'logger=settings t=2026-11-28T11:00:00.123456789+01:00 level=info msg="Starting Grafana"',
        TEN,
        "+01:00",
        "info",
    ),
    Example(
        "fail2ban",
        "2026-11-28 10:00:00,123 fail2ban.actions        [1234]: NOTICE  [sshd] Ban 10.0.0.9",
        TEN,
        "",
        "notice",
    ),
    Example(
        "Exim", "2026-11-28 10:00:00 1abcDE-0001-Xy <= bob@a.example H=mx [10.0.0.9] P=esmtp S=1234", TEN, "", "none"
    ),
    Example("vsftpd", 'Sat Nov 28 10:00:00 2026 [pid 1234] CONNECT: Client "10.0.0.9"', TEN, "", "none"),
    Example("Nagios", "[1795860000] SERVICE NOTIFICATION: bob;web1;HTTP;OK;notify-by-email;fine", TEN, "", "none"),
    Example(
        "Icinga", "[2026-11-28 11:00:00 +0100] critical/ApiListener: Cannot connect to host", TEN, "+0100", "fatal"
    ),
    Example("Zabbix", "  1234:20261128:100000.123 cannot send list of active checks", TEN, "", "none"),
    Example("FreeRADIUS", "Sat Nov 28 10:00:00 2026 : Error: Failed binding to auth address", TEN, "", "error"),
    Example("ClickHouse", "2026.11.28 10:00:00.123456 [ 1234 ] {} <Error> Application: no disk", TEN, "", "error"),
    Example("Oracle, alert log", "2026-11-28T11:00:00.123456+01:00", TEN, "+01:00", "none"),
    Example("DB2", "2026-11-28-11.00.00.123456+060 I1234A567         LEVEL: Error", TEN, "+060", "error"),
    Example(
        "winston", '{"level":"error","message":"failed","timestamp":"2026-11-28T10:00:00.123Z"}', TEN, "Z", "error"
    ),
    Example("winston, simple", "error: failed to connect", "", "", "error"),
    Example("pino", '{"level":50,"time":1795860000123,"pid":1,"hostname":"web1","msg":"failed"}', TEN, "", "error"),
    Example(
        "bunyan",
        '{"name":"app","hostname":"web1","pid":1,"level":40,"msg":"slow","time":"2026-11-28T10:00:00.123Z","v":0}',
        TEN,
        "Z",
        "warn",
    ),
    Example("Ruby Logger", "E, [2026-11-28T10:00:00.123456 #123] ERROR -- : failed", TEN, "", "error"),
    Example(
        "Rails", 'I, [2026-11-28T10:00:00.123456 #123]  INFO -- : Started GET "/errors" for 10.0.0.9', TEN, "", "info"
    ),
    Example("Django, runserver", '[28/Nov/2026 10:00:00] "GET / HTTP/1.1" 200 5', TEN, "", "info"),
    Example(
        "gunicorn", "[2026-11-28 11:00:00 +0100] [1234] [CRITICAL] WORKER TIMEOUT (pid:1235)", TEN, "+0100", "fatal"
    ),
    Example(
        "uWSGI",
        "[pid: 1|app: 0|req: 1/1] 10.0.0.9 () {40 vars in 512 bytes} [Sat Nov 28 10:00:00 2026] GET / => generated 5 bytes",
        TEN,
        "",
        "none",
    ),
    Example("Celery", "[2026-11-28 10:00:00,123: ERROR/MainProcess] consumer: Cannot connect", TEN, "", "error"),
    Example("Airflow", "[2026-11-28, 10:00:00 UTC] {taskinstance.py:1824} ERROR - Task failed", TEN, "UTC", "error"),
    Example("Laravel", "[2026-11-28 10:00:00] production.ERROR: failed {}", TEN, "", "error"),
    Example(
        "Symfony, Monolog",
        "[2026-11-28T11:00:00.123456+01:00] app.CRITICAL: Uncaught exception [] []",
        TEN,
        "+01:00",
        "fatal",
    ),
    Example("Elixir", "2026-11-28 10:00:00.123 [error] GenServer terminating", TEN, "", "error"),
    Example("supervisord", "2026-11-28 10:00:00,123 CRIT Supervisor is running as root", TEN, "", "fatal"),
    Example("AWS Lambda", "2026-11-28T10:00:00.123Z\t6f8a\tERROR\tfailed", TEN, "Z", "error"),
    Example(
        "AWS ALB",
        'https 2026-11-28T10:00:00.123456Z app/lb/1 10.0.0.9:4022 10.0.0.1:80 0 0 0 200 200 1 2 "GET / HTTP/1.1"',
        TEN,
        "Z",
        "none",
    ),
    Example(
        "AWS S3",
        '79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be bucket [28/Nov/2026:10:00:00 +0000] 10.0.0.9 - 3E5 REST.GET "GET /x" 200',
        TEN,
        "+0000",
        "none",
    ),
    Example(
        "AWS VPC flow",
        "2 123456789010 eni-1235b8ca 10.0.0.9 10.0.0.1 20641 22 6 20 4249 1795860000 1795860060 ACCEPT OK",
        TEN,
        "",
        "none",
    ),
    Example(
        "AWS CloudTrail",
        '{"eventVersion":"1.08","eventTime":"2026-11-28T10:00:00Z","eventName":"StartInstances"}',
        TEN,
        "Z",
        "none",
    ),
    Example(
        "Google Cloud",
        '{"severity":"EMERGENCY","timestamp":"2026-11-28T10:00:00.123Z","textPayload":"x"}',
        TEN,
        "Z",
        "fatal",
    ),
    Example("Azure", '{"time":"2026-11-28T10:00:00.1234567Z","level":"Warning","category":"x"}', TEN, "Z", "warn"),
    Example(
        "Suricata, fast.log",
        "11/28/2026-10:00:00.123456  [**] [1:2010935:3] ET SCAN [**] {TCP} 10.0.0.9:4022",
        TEN,
        "",
        "none",
    ),
    Example(
        "Fortinet",
        'date=2026-11-28 time=10:00:00 devname="fw1" logid="0000000013" type="traffic" level="warning"',
        TEN,
        "",
        "warn",
    ),
    Example("day first, dots", "28.11.2026 10:00:00 ERROR failed", TEN, "", "error"),
    Example("day first, slashes", "28/11/2026 10:00:00 ERROR failed", TEN, "", "error"),
    Example("ISO 8601, basic", "20261128T100000Z INFO started", TEN, "Z", "info"),
    Example("IANA name", "2026-11-28T19:00:00[Asia/Tokyo] WARN slow", TEN, "Asia/Tokyo", "warn"),
    Example("ambiguous zone", "2026-11-28 10:00:00 IST ERROR failed", "", "IST", "error"),
    Example(
        "words that are no level",
        "2026-11-28 10:00:00 app: no error, error_count=0, ERROR_LOG=/x, GET /api/ERROR/7?level=error",
        TEN,
        "",
        "none",
    ),
    Example(
        "Envoy",
        "[2026-11-28 10:00:00.123][1][critical][main] [source/server/server.cc:117] error initializing",
        TEN,
        "",
        "fatal",
    ),
    Example(
        "etcd before 3.4",
        "2026-11-28 10:00:00.123456 W | etcdserver: read-only range request took too long",
        TEN,
        "",
        "warn",
    ),
    Example("Telegraf", "2026-11-28T10:00:00Z E! [outputs.influxdb] failed to write", TEN, "Z", "error"),
    Example("qBittorrent", "(W) 2026-11-28T10:00:00 - File error alert", TEN, "", "warn"),
    Example(
        "klog through syslog",
        "Nov 28 10:00:00 node1 kubelet[12]: W1128 10:00:00.123456   12 x.go:1] slow",
        TEN,
        "",
        "warn",
    ),
    Example(
        "Kubernetes, audit",
        '{"kind":"Event","level":"Metadata","verb":"list","requestReceivedTimestamp":"2026-11-28T10:00:00.000000Z"}',
        TEN,
        "Z",
        "none",
    ),
    Example(
        "dmesg -x -T", "kern  :warn  : [Sat Nov 28 10:00:00 2026] CPU0: temperature above threshold", TEN, "", "warn"
    ),
    Example("dmesg -x", "kern  :err   : [12345.678901] EXT4-fs error (device sda1)", "", "", "error"),
    Example(
        "MySQL 8, system",
        "2026-11-28T10:00:00.123456Z 0 [System] [MY-010931] [Server] ready for connections",
        TEN,
        "Z",
        "info",
    ),
    Example("Suricata", "28/11/2026 -- 10:00:00 - <Notice> - This is Suricata version 6.0.1", TEN, "", "notice"),
    Example("day first, dashes", "28-11-2026 10:00:00 ERROR failed", TEN, "", "error"),
    Example("month first, dashes", "11-28-2026 10:00:00 ERROR failed", TEN, "", "error"),
    Example(
        "Comware", "%Nov 28 10:00:00:123 2026 SW1 SHELL/6/SHELL_LOGIN: bob logged in from 10.0.0.9", TEN, "", "info"
    ),
    Example(
        "Huawei VRP",
        "Nov 28 2026 10:00:00+00:00 SW1 %%01IFNET/3/LINK(l)[1]:The state of the interface changed",
        TEN,
        "+00:00",
        "error",
    ),
)
