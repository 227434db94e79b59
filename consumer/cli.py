"""`fshipper consume`: reads the settings and runs a collector."""

from consumer.command import ConsumeOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "consume": Command(
            ConsumeOptions,
            "consumer.main:consume",
            ("consume", "consume --drain --seal --archive /srv/archive"),
            usual="drain seal archive partitions name listen url config",
            exits="1 --drain while a collector runs",
        )
    }
)
