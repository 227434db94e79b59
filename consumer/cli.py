"""`fshipper consume`: reads the settings and runs a collector."""

from consumer.command import ConsumeOptions
from shipper.commands import Command, program_of

app = program_of({"consume": Command(ConsumeOptions, "consumer.main:consume")})
