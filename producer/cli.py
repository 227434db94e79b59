"""`fshipper produce`: settings in, one pipeline out."""

from producer.command import ProduceOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "produce": Command(
            ProduceOptions,
            "producer.main:produce",
            (
                "produce /var/log/syslog '/var/log/nginx/*.log'",
                "produce --once /srv/app/*.log",
                "produce --dry-run '/var/log/**/*.log'",
            ),
            usual="once exclude host dry-run redact label state url config",
            exits="2 no path or glob matches a file, 78 the name of the host is taken or a file cannot be read",
        )
    }
)
