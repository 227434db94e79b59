"""`fshipper wait`: its options. Exit code 0: everything is archived, 1: not within the timeout."""

from consumer.wait.options import WaitOptions
from shipper.commands import Command, program_of

app = program_of({"wait": Command(WaitOptions, "consumer.wait.app:run")})
