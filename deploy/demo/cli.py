"""`fshipper demo`: its command."""

from deploy.demo.options import DemoOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "demo": Command(
            DemoOptions,
            "deploy.demo.app:run",
            ("demo", "demo --days 30 --no-report"),
            exits="0 only if the archive is equal",
        )
    }
)
