"""`fshipper audit` and `fshipper redact`: their options."""

from consumer.audit.options import AuditOptions, RedactOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "audit": Command(
            AuditOptions,
            "consumer.audit.app:run",
            ("audit", "audit --date yesterday --producers"),
            usual="archive date since until host producers json repair-duplicates",
            exits="0 complete, 2 gaps or damage or an empty archive, 69 no such day or host, 78 no archive",
        )
    }
)
redact_app = program_of(
    {
        "redact": Command(
            RedactOptions,
            "consumer.audit.redact:run",
            (
                "redact --host web1 --match '83[.]149[.][0-9.]+' --dry-run",
                "redact --host web1 --file /var/log/app.log --match 'password=[^ ]+' --streams",
            ),
            usual="host file match date since until dry-run yes json",
            exits="2 files are still open, 69 no such host or day, 78 no archive",
        )
    }
)
