"""The settings of all programs as frozen values; each program reads its own section."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from shipper.errors import ConfigError
from shipper.model import MAX_BLOCK_BYTES, Encoding
from shipper.partitioning import partition_for
from shipper.subjects import checked_host, checked_prefix
from shipper.units import parse_seconds, parse_size

Size = Annotated[int, BeforeValidator(parse_size)]
Seconds = Annotated[float, BeforeValidator(parse_seconds)]
MAX_PARTITIONS = 4096


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


def _servers(value: object) -> object:
    return tuple(filter(None, (part.strip() for part in value.split(",")))) if isinstance(value, str) else value


def _host(value: object) -> object:
    return _checked(checked_host, str(value)) if value else value


def _prefix(value: object) -> object:
    return _checked(checked_prefix, str(value))


def _checked(check: Callable[[str], str], text: str) -> str:
    try:
        return check(text)
    except ConfigError as error:
        raise ValueError(f"{error}; {error.hint}") from None  # pydantic collects ValueErrors only


Partitions = Annotated[tuple[int, ...], BeforeValidator(_numbers)]
Paths = Annotated[tuple[str, ...], BeforeValidator(_paths)]
Servers = Annotated[tuple[str, ...], BeforeValidator(_servers), Field(min_length=1)]
Host = Annotated[str, BeforeValidator(_host)]
Prefix = Annotated[str, BeforeValidator(_prefix)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NatsSettings(_Section):
    """How to reach the server."""

    url: Servers = ("nats://127.0.0.1:4222",)
    creds: Path | None = None
    nkey_seed: Path | None = None
    user: str | None = None
    password: SecretStr | None = None
    token: SecretStr | None = None
    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None
    tls_first: bool = False
    connect_timeout: Seconds = 5.0

    @property
    def shown_url(self) -> str:
        """The servers for messages, without user names and passwords."""
        return ",".join(re.sub(r"//[^@/]*@", "//", url) for url in self.url)


class LogsSettings(_Section):
    """What every program must agree on: the subject and the partitions."""

    subject: Prefix = "logs"
    partitions: Annotated[int, Field(ge=0, le=MAX_PARTITIONS)] = 0


class ProducerSettings(_Section):
    """What a host ships, and how."""

    host: Host = ""
    files: Paths = ()
    exclude: Paths = ()
    state: Path | None = None
    encoding: Encoding = Encoding.ZSTD
    start_at_end: bool = False
    block: Annotated[Size, Field(ge=4096, le=MAX_BLOCK_BYTES)] = 256 * 1024
    window: Annotated[Size, Field(ge=1024 * 1024, le=256 * 1024 * 1024)] = 8 * 1024 * 1024
    poll: Annotated[Seconds, Field(ge=0.01, le=3600)] = 1.0
    watch: bool = True
    ack_timeout: Annotated[Seconds, Field(ge=0.1, le=600)] = 10.0
    checkpoint_every: Annotated[Seconds, Field(ge=0.01, le=60)] = 0.25
    rotate_wait: Annotated[Seconds, Field(ge=0, le=86400)] = 5.0
    drain_within: Annotated[Seconds, Field(ge=0, le=600)] = 20.0
    listen: str = "127.0.0.1:9600"


class CollectorSettings(_Section):
    """What a collector reads, and where it writes."""

    name: str = ""
    directory: Path = Path("archive")
    output: str = "messages.log"
    state: Path | None = None
    read_partitions: Partitions = ()
    codec: Annotated[str, Field(pattern="^(zstd|gzip|none)$")] = "zstd"
    batch: Annotated[Size, Field(ge=1024 * 1024, le=256 * 1024 * 1024)] = 16 * 1024 * 1024
    open_files: Annotated[int, Field(ge=8, le=100_000)] = 256
    segment: Annotated[Size, Field(ge=4096)] = 128 * 1024 * 1024
    idle_seal: Annotated[Seconds, Field(ge=1)] = 3600.0
    replay_window: Annotated[Seconds, Field(ge=0)] = 86400.0
    hole_patience: Annotated[Seconds, Field(ge=0.1)] = 30.0
    hole_limit: Annotated[Seconds, Field(ge=1)] = 900.0
    receipt_every: Annotated[Seconds, Field(ge=0.1)] = 5.0
    listen: str = "127.0.0.1:9601"


class LogSettings(_Section):
    """The programs' own log."""

    format: Annotated[str, Field(pattern="^(text|json)$")] = "text"
    level: Annotated[str, Field(pattern="^(debug|info|warning|error)$")] = "info"


class Settings(_Section):
    """Everything that can be set, for all programs; each reads its own section."""

    nats: NatsSettings = NatsSettings()
    logs: LogsSettings = LogsSettings()
    producer: ProducerSettings = ProducerSettings()
    collector: CollectorSettings = CollectorSettings()
    log: LogSettings = LogSettings()

    @property
    def partition(self) -> int:
        """The partition of this host."""
        return partition_for(self.producer.host, self.logs.partitions)
