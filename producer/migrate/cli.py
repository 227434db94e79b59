"""`fshipper migrate`: its options. Exit code 0: something to ship was found, 2: nothing was."""

from producer.migrate.options import MigrateOptions
from shipper.commands import Command, program_of

app = program_of({"migrate": Command(MigrateOptions, "producer.migrate.app:run")})
