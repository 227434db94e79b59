"""`fshipper migrate`: its command."""

from producer.foreign_config.options import MigrateOptions
from shipper.commands import Command, program_of

app = program_of({"migrate": Command(MigrateOptions, "producer.foreign_config.app:run")})
