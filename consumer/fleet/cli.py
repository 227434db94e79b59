"""`fshipper status`: its options. Exit code 0: no problem, 2: something is stuck or dead."""

from consumer.fleet.options import StatusOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "status": Command(
            StatusOptions,
            "consumer.fleet.app:run",
            ("status", "status 'web*' --watch", "status --in-state stuck --in-state dead --json"),
            usual="in-state watch every limit json dead-after url config",
            exits="2 a host or partition needs attention, or a named host is unknown",
        )
    }
)
