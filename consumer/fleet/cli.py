"""`fshipper status`: its options. Exit code 0: no problem, 2: something is stuck or dead."""

from consumer.fleet.options import StatusOptions
from shipper.commands import Command, program_of

app = program_of({"status": Command(StatusOptions, "consumer.fleet.app:run")})
