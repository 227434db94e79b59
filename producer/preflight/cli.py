"""`fshipper validate`: its options."""

from producer.preflight.options import ValidateOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "validate": Command(
            ValidateOptions,
            "producer.preflight.validate:run",
            (
                "validate '/var/log/*.log' --connect",
                "validate --role collector --connect --config /etc/fshipper/collector.toml",
            ),
            usual="connect role json exclude host state url config",
        )
    }
)
