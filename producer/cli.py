"""`fshipper produce`: settings in, one pipeline out."""

from producer.command import ProduceOptions
from shipper.commands import Command, program_of

app = program_of({"produce": Command(ProduceOptions, "producer.main:produce")})
