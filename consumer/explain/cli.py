"""`fshipper explain`: its options. Exit code 0: it is in the archive, 1: it is not, or that is not known."""

from consumer.explain.options import ExplainOptions
from shipper.commands import Command, program_of

app = program_of({"explain": Command(ExplainOptions, "consumer.explain.app:run")})
