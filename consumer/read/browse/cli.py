"""`fshipper browse`: which function does its work."""

from consumer.read.options import BrowseOptions
from shipper.commands import Command, program_of

app = program_of({"browse": Command(BrowseOptions, "consumer.read.browse.app:run")})
