"""The settings of all programs as frozen values; each program reads its own section."""

import ipaddress
import re
from collections.abc import Callable, Set
from pathlib import Path
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from shipper import default_paths, zone_names
from shipper.codec import MAX_LABELS_BYTES, encode_labels
from shipper.errors import ConfigError
from shipper.linear_regex import Linear, PatternError
from shipper.model import MAX_BLOCK_BYTES, Encoding
from shipper.partition_map import MAX_PARTITIONS, partition_for
from shipper.subjects import checked_host, checked_prefix
from shipper.units import parse_seconds, parse_size

Size = Annotated[int, BeforeValidator(parse_size)]
Seconds = Annotated[float, BeforeValidator(parse_seconds)]
SCHEMES = ("nats", "tls", "ws", "wss")
TLS_SCHEMES = ("tls", "wss")
READY_REDACTIONS = frozenset({"card", "token", "email"})


def _numbers(value: object) -> object:
    """`0,2,5-7` as (0, 2, 5, 6, 7)."""
    if not isinstance(value, str):
        return value
    chosen: list[int] = []
    for part in filter(None, (part.strip() for part in value.split(","))):
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if not found:
            raise ValueError(f"{part!r} is no partition; write for example 0,2 or 0-3")
        chosen.extend(range(int(found[1]), int(found[2] or found[1]) + 1))
    return tuple(dict.fromkeys(chosen))


def _paths(value: object) -> object:
    """`a:b` (as in PATH) or a list."""
    return tuple(filter(None, value.split(":"))) if isinstance(value, str) else value


def _absolute(paths: tuple[str, ...]) -> tuple[str, ...]:
    for path in paths:
        if not path.startswith("/"):
            raise ValueError(f"{path!r} is not an absolute path; write for example /var/log/pods")
    return paths


def _servers(value: object) -> object:
    """Server URLs, separated by commas; the scheme in lower case, because nats-py compares it as it is."""
    given = value.split(",") if isinstance(value, str) else value
    if not (isinstance(given, list | tuple) and all(isinstance(part, str) for part in given)):
        return value
    return tuple(_server(part) for part in map(str.strip, given) if part)


def _server(url: str) -> str:
    """`url` if it can be the URL of a NATS server. Messages never contain the URL: it may hold a password."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme.lower() not in SCHEMES:
        raise ValueError(
            f"a URL that begins with {scheme}:// is not a NATS URL; write nats://HOST:4222, or tls://HOST:4222 for TLS"
        )
    try:
        host = host_of_url(url)
    except ValueError:
        raise ValueError("the port of a URL must be a number from 1 to 65535") from None
    if not host:
        raise ValueError("a URL names no host; write nats://HOST:4222, or tls://HOST:4222 for TLS")
    return f"{scheme.lower()}://{rest}" if separator else url


def host_of_url(url: str) -> str:
    """The host in the URL of a server; empty: there is none. Raises ValueError: the port is none."""
    parts = _authority(url)
    _ = parts.port  # reading it checks it
    return parts.hostname or ""


def _authority(url: str) -> SplitResult:
    return urlsplit(f"//{url.rpartition('://')[2].rpartition('@')[2].partition('/')[0]}")


CLIENT_PORT, MONITOR_PORT = 4222, 8222
"""The usual ports of a NATS server."""
LAST_PORT = 65535
MONITOR_DISTANCE = 4000
"""From the port of a server to its monitoring port, as `fshipper server` chooses it: 4222 and 8222."""


def _monitors(value: object) -> object:
    """URLs of monitoring ports, separated by commas."""
    given = tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value
    for url in given if isinstance(given, list | tuple) else ():
        scheme, _, rest = str(url).partition("://")
        parts = urlsplit(str(url))
        if scheme not in {"http", "https"} or not parts.hostname or not parts.port or "@" in rest:
            raise ValueError(f"{url!r} is no monitoring port; write http://HOST:8222, or https://HOST:8222")
    return given


def _host_names(value: object) -> object:
    """`a.example.net,*.example.org` or a list; no schemes, ports or paths."""
    names = tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value
    for name in names if isinstance(names, tuple | list) else ():
        if not re.fullmatch(r"\*|(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?", str(name)):
            raise ValueError(f"{name!r} is no host name; write for example collector.example.net or *.example.net")
    return names


def _words(value: object) -> object:
    """`alice,bob` or a list."""
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value


def _networks(networks: tuple[str, ...]) -> tuple[str, ...]:
    for each in networks:
        try:
            ipaddress.ip_network(each)
        except ValueError as error:
            raise ValueError(f"{error}; write for example 10.0.0.5 or 10.0.0.0/24") from None
    return networks


def _labels(value: object) -> object:
    """`("env=prod", "dc=ams")` or a table."""
    if not isinstance(value, tuple):
        return value
    pairs = [str(label).partition("=") for label in value]
    wrong = [name for name, equals, _ in pairs if not (name and equals)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no pair; write NAME=VALUE")
    return {name: text for name, _, text in pairs}


def _known_zone(name: str) -> str:
    if name and zone_names.load(name) is None:
        raise ValueError(f"{name!r} is no zone that this machine knows; write for example Europe/Berlin")
    return name


def _few_labels(labels: dict[str, str]) -> dict[str, str]:
    if not all(labels):
        raise ValueError("a label has no name; write NAME=VALUE")
    try:
        length = len(encode_labels(labels.items()))
    except UnicodeEncodeError:
        raise ValueError("a label is no UTF-8") from None
    if length > MAX_LABELS_BYTES:
        raise ValueError(f"the labels take {length} bytes, at most {MAX_LABELS_BYTES} travel with each block; shorten")
    return labels


def _expressions(value: object, *, ready: Set[str] = frozenset()) -> object:
    """One regular expression or a list; each that is not the name of a `ready` pattern is compiled."""
    expressions = (value,) if isinstance(value, str) else value
    if isinstance(expressions, tuple | list):
        for expression in expressions:
            if not (isinstance(expression, str) and expression in ready):
                _check_expression(str(expression))
    return expressions


def _check_expression(expression: str) -> None:
    """Compile it as it will be: on bytes, line by line."""
    if not expression:
        raise ValueError("an empty expression matches every line; leave it away")
    try:
        Linear(expression.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{expression!r} is no UTF-8") from None
    except PatternError as error:
        raise ValueError(f"{expression!r} cannot be used: {error}") from None


def _host(value: object) -> object:
    if not str(value).strip():
        raise ValueError("the host name is empty; leave it out to take the system's, or give this machine a name")
    return _checked(checked_host, str(value))


def _checked(check: Callable[[str], str], text: str) -> str:
    try:
        return check(text)
    except ConfigError as error:
        raise ValueError(f"{error}; {error.hint}") from None  # pydantic collects ValueErrors only


Partitions = Annotated[tuple[int, ...], BeforeValidator(_numbers)]
Paths = Annotated[tuple[str, ...], BeforeValidator(_paths)]
Roots = Annotated[Paths, AfterValidator(_absolute)]
Servers = Annotated[tuple[str, ...], BeforeValidator(_servers), Field(min_length=1)]
Monitors = Annotated[tuple[str, ...], BeforeValidator(_monitors)]
Readers = Annotated[str, Field(pattern="^(group|all)$")]
HeaderName = Annotated[str, Field(pattern="^[A-Za-z0-9-]*$")]
Names = Annotated[tuple[str, ...], BeforeValidator(_words)]
Networks = Annotated[tuple[str, ...], BeforeValidator(_words), AfterValidator(_networks)]
HostNames = Annotated[tuple[str, ...], BeforeValidator(_host_names)]
Host = Annotated[str, BeforeValidator(_host)]
Timezone = Annotated[str, AfterValidator(_known_zone)]
Timezones = Annotated[dict[str, Timezone], BeforeValidator(_labels)]
Labels = Annotated[dict[str, str], BeforeValidator(_labels), AfterValidator(_few_labels)]
Expressions = Annotated[tuple[str, ...], BeforeValidator(_expressions)]
Redactions = Annotated[tuple[str, ...], BeforeValidator(lambda value: _expressions(value, ready=READY_REDACTIONS))]
Prefix = Annotated[str, BeforeValidator(lambda value: _checked(checked_prefix, str(value)))]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NatsSettings(_Section):
    """How to reach the server."""

    context: str = ""  #: a context of the `nats` command; servers, user and TLS come from it, unless they are set, too
    url: Servers = ("nats://127.0.0.1:4222",)  #: servers, comma-separated; the first is chosen at random
    creds: Path | None = None  #: file of credentials (token and seed)
    nkey_seed: Path | None = None  #: file with the seed of an nkey
    user: str | None = None  #: user name, where the server has passwords
    password: SecretStr | None = None  #: password of that user; not available as a flag, never shown
    token: SecretStr | None = None  #: token instead of a user; not available as a flag, never shown
    certificate: Path | None = None  #: client certificate for TLS (PEM)
    key: Path | None = None  #: private key of the client certificate (PEM)
    ca: Path | None = None  #: authority of the server's certificate (PEM); default: the system's
    tls_first: bool = False  #: start with TLS, for servers with handshake_first
    connect_timeout: Seconds = 5.0  #: timeout for one server
    monitor: Monitors = ()  #: monitoring ports that show how the servers sync; default: 8222 of the servers in `url`

    @property
    def wants_tls(self) -> bool:
        """Whether every connection must be encrypted. One setting that names TLS is enough, also for other URLs."""
        by_scheme = any(url.partition("://")[0] in TLS_SCHEMES for url in self.url if "://" in url)
        return by_scheme or self.tls_first or any((self.ca, self.certificate, self.key))

    @property
    def shown_url(self) -> str:
        """The servers for messages, without user names and passwords."""
        return ",".join(re.sub(r"^([a-zA-Z+]+://)?.*@", r"\1", url, flags=re.DOTALL) for url in self.url)

    @property
    def monitors(self) -> tuple[str, ...]:
        """The URLs of monitoring ports: those of the settings, else where the servers' may be."""
        if self.monitor:
            return self.monitor
        found: list[str] = []
        for url in (*self.url, f"127.0.0.1:{_authority(self.url[0]).port or CLIENT_PORT}"):  # as shipped: not outside
            place = _authority(url)
            host = f"[{place.hostname}]" if ":" in (place.hostname or "") else place.hostname
            ports = (MONITOR_PORT, (place.port or CLIENT_PORT) + MONITOR_DISTANCE)
            found += [f"http://{host}:{port}" for port in ports if port <= LAST_PORT]
        return tuple(dict.fromkeys(found))


class LogsSettings(_Section):
    """Must be equal for all programs: the subject and the number of partitions."""

    subject: Prefix = "logs"  #: first token of all subjects
    partitions: Annotated[int, Field(ge=0, le=MAX_PARTITIONS)] = 0  #: used if there is no partition map; 0: one


class ProducerSettings(_Section):
    """What a producer ships, and how."""

    host: Host = ""  #: name of this host in the subject; default: the system's
    files: Paths = ()  #: files and globs to ship
    exclude: Paths = ()  #: files and globs that are not shipped
    link_roots: Roots = ()  #: directories; links of any owner to files below them are followed
    state: Path | None = None  #: directory of checkpoints and spools; /var/lib/fshipper, or the user's state directory
    encoding: Encoding = Encoding.ZSTD  #: of blocks: zstd, gzip, identity; plain: one message per line
    start_at_end: bool = False  #: files of the first scan start at their end
    block: Annotated[Size, Field(ge=4096, le=MAX_BLOCK_BYTES)] = MAX_BLOCK_BYTES  #: maximum bytes of lines per message
    window: Annotated[Size, Field(ge=1024 * 1024, le=256 * 1024 * 1024)] = 8 * 1024 * 1024  #: maximum bytes in flight
    max_delay: Annotated[Seconds, Field(ge=0.02, le=10)] = 1.0  #: maximum wait for more lines
    poll: Annotated[Seconds, Field(ge=0.01, le=3600)] = 1.0  #: scan interval where notifications do not work
    watch: bool = True  #: use notifications to scan earlier; scans decide
    ack_timeout: Annotated[Seconds, Field(ge=0.1, le=600)] = 10.0  #: timeout for an ack; then the block is sent again
    checkpoint_every: Annotated[Seconds, Field(ge=0.01, le=60)] = 0.25  #: interval of writes; a kill resends the rest
    rotate_wait: Annotated[Seconds, Field(ge=0, le=86400)] = 5.0  #: wait for late lines of a renamed file
    partial_after: Annotated[Seconds, Field(ge=0, le=86400)] = 5.0  #: wait for a last line's newline; 0: for ever
    drain_within: Annotated[Seconds, Field(ge=0, le=600)] = 20.0  #: timeout of the acks in flight at a stop
    heartbeat: Annotated[Seconds, Field(ge=0, le=3600)] = 5.0  #: interval of heartbeats; 0: none
    listen: str = "127.0.0.1:9600"  #: address of /metrics /healthz /readyz /status; empty: none
    allowed_hosts: HostNames = ()  #: other host names in requests to it: a.example.net, *.example.net, *
    ignore_older: Annotated[Seconds, Field(ge=0)] = 0.0  #: skip the content of files older than this; 0: off
    delete_archived: Annotated[Seconds, Field(ge=0)] | None = None  #: delay after the file is archived; unset: off
    recover_wait: Annotated[Seconds, Field(ge=0, le=3600)] | None = None  #: wait; then lines may be sent twice
    hold: Annotated[Size, Field(ge=0)] = 1024 * 1024 * 1024  #: maximum bytes in retained files
    hold_for: Annotated[Seconds, Field(ge=0)] = 86400.0  #: maximum time for which a rotated file is retained
    open_files: Annotated[int, Field(ge=0)] = 0  #: maximum open files; 0: the system's limit
    rate: Annotated[Size, Field(ge=0)] = 0  #: maximum bytes per second; 0: no limit
    read_order: Annotated[str, Field(pattern="^(fair|oldest)$")] = "fair"  #: fair: files in turn; oldest: oldest first
    keep_lines: Expressions = ()  #: regular expressions; if set, other lines are filtered
    drop_lines: Expressions = ()  #: regular expressions of lines that are filtered
    redact: Redactions = ()  #: built-in patterns (card, token, email) or regular expressions
    pattern_time: Seconds | None = None  #: no effect since 0.2.0: the time of patterns is linear in the text
    timezone: Timezone = ""  #: zone of times without one in the lines: Europe/Berlin, UTC; default: the system's
    timezones: Timezones = {}  #: GLOB=ZONE, for files of another zone
    labels: Labels = {}  #: NAME=VALUE, stored in the manifest of every segment
    charset: Annotated[str, Field(pattern="^(|utf-16|utf-16-le|utf-16-be)$")] = ""  #: converted to UTF-8
    stdin_name: str = "/dev/stdin"  #: name of standard input (`produce -`) in the archive
    syslog: tuple[str, ...] = ()  #: addresses to listen on: udp:HOST:PORT, tcp:HOST:PORT, unix:PATH, unix-stream:PATH
    syslog_sender: Annotated[str, Field(pattern="^(none|line|file)$")] = "none"  #: address in front, or a file each
    journald: Annotated[str, Field(pattern="^(|text|syslog|json)$")] = ""  #: format of the systemd journal; empty: off
    journald_directory: Path | None = None  #: directory of another journal, of a machine or container
    journald_match: tuple[str, ...] = ()  #: FIELD=VALUE, as of journalctl
    spool: Annotated[Size, Field(ge=1024 * 1024)] = 256 * 1024 * 1024  #: maximum bytes of a spool


class CollectorSettings(_Section):
    """What a collector reads, and where it writes."""

    name: str = ""  #: name in the manifests; default: the machine's
    directory: Path = Field(default_factory=default_paths.archive)  #: directory of the archive
    readable_by: Readers = "group"  #: who may read new files of the archive: group or all
    output: str = "messages.log"  #: file of plain messages; with { or %: template for all files
    state: Path | None = None  #: directory of journals; default: in the archive
    read_partitions: Partitions = ()  #: 0,2 or 0-3; default: every existing stream
    codec: Annotated[str, Field(pattern="^(zstd|gzip|none)$")] = "zstd"  #: of segments: zstd, gzip, none
    batch: Annotated[Size, Field(ge=1024 * 1024, le=256 * 1024 * 1024)] = 16 * 1024 * 1024  #: maximum bytes per batch
    open_files: Annotated[int, Field(ge=0, le=100_000)] = 0  #: maximum open files; 0: the system's limit
    segment: Annotated[Size, Field(ge=4096)] = 128 * 1024 * 1024  #: size at which a file is sealed
    idle_seal: Annotated[Seconds, Field(ge=1)] = 3600.0  #: time without lines after which a file is sealed
    replay_window: Annotated[Seconds, Field(ge=0)] = 86400.0  #: how long the stream keeps archived messages
    hole_patience: Annotated[Seconds, Field(ge=0.1)] = 30.0  #: until missing blocks are requested
    hole_limit: Annotated[Seconds, Field(ge=1)] = 900.0  #: until missing blocks are recorded as a gap
    receipt_every: Annotated[Seconds, Field(ge=0.1)] = 5.0  #: interval of receipts to a producer
    store: Annotated[str, Field(pattern="^(plain|frames)$")] = "plain"  #: text, or the blocks' frames as received
    merge: Annotated[Size, Field(ge=0)] = 16 * 1024 * 1024  #: smaller segments of a past day are merged; 0: off
    repack: Annotated[int, Field(ge=0, le=19)] = 0  #: zstd level of segments of past days, such as 12; 0: off
    repack_cpu: Annotated[int, Field(ge=1, le=100)] = 10  #: maximum CPU for that in per cent of a core, while idle
    keep_days: Annotated[int, Field(ge=0)] = 0  #: days after which a day is removed; 0: never
    keep_bytes: Annotated[Size, Field(ge=0)] = 0  #: bytes on disk above which old days are removed; 0: never
    keep_by: Annotated[str, Field(pattern="^(hosts|days)$")] = "hosts"  #: hosts: of the largest host; days: of all
    keep_sources: Annotated[Seconds, Field(ge=0)] = 90 * 86400.0  #: how long the journal keeps ended sources
    host_text: Annotated[Size, Field(ge=0)] = 1024**4  #: text of a host in a day and partition, then an alert; 0: off
    serve_partitions: bool = False  #: create streams on request, as `fshipper partition serve`
    seal_on_request: bool = False  #: seal open files when `fshipper report` makes the report of today
    lease: Annotated[Seconds, Field(ge=1, le=600)] = 5.0  #: time without renewal after which a lease ends
    listen: str = "127.0.0.1:9601"  #: address of the page, /metrics /healthz /readyz /status; empty: none
    allowed_hosts: HostNames = ()  #: other host names in requests to it: a.example.net, *.example.net, *


class BrowseSettings(_Section):
    """What `fshipper browse` serves; the archive is the collector's `directory`."""

    listen: str = "127.0.0.1:9602"  #: address of the page, /metrics /healthz /readyz /status
    allowed_hosts: HostNames = ()  #: other host names in requests to it, as a proxy has them: logs.example.net
    trust_user_header: HeaderName = ""  #: a local proxy's header with its user


class WebSettings(_Section):
    """What `fshipper web` serves, and to whom; the archive is the collector's `directory`."""

    listen: str = "127.0.0.1:9603"  #: address of the pages, /metrics /healthz /readyz /status
    allowed_hosts: HostNames = ()  #: other host names in requests to it, as a proxy has them: logs.example.net
    report: Path = Path("/var/lib/fshipper/report")  #: directory of the reports
    accounts: Path | None = None  #: file of local accounts, which `fshipper web user` writes; unset: none
    proxies: Networks = ("127.0.0.1", "::1")  #: addresses and networks of proxies whose headers are trusted
    user_header: HeaderName = ""  #: header in which a proxy sends its user; empty: none
    operators: Names = ()  #: users of the proxy who are operators; the others are readers


class LogSettings(_Section):
    """The programs' own log."""

    format: Annotated[str, Field(pattern="^(text|json)$")] = "text"  #: text or json
    level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"  #: debug, info, warning, error


class Settings(_Section):
    """Everything that can be set, for all programs; each reads its own section."""

    nats: NatsSettings = NatsSettings()
    logs: LogsSettings = LogsSettings()
    producer: ProducerSettings = ProducerSettings()
    collector: CollectorSettings = CollectorSettings()
    browse: BrowseSettings = BrowseSettings()
    web: WebSettings = WebSettings()
    log: LogSettings = LogSettings()

    @property
    def partition(self) -> int:
        """The partition of this host."""
        return partition_for(self.producer.host, self.logs.partitions)
