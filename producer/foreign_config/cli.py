"""`fshipper migrate`: its command."""

from producer.foreign_config.options import MigrateOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "migrate": Command(
            MigrateOptions,
            "producer.foreign_config.app:run",
            ("migrate /etc/promtail/config.yml --output producer.toml", "migrate /etc/rsyslog.conf --json"),
            exits="64 the file exists or cannot be read, 78 it is no such configuration",
        )
    }
)
