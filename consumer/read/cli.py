"""`fshipper tail`, `replay` and `search`: which functions do their work."""

from consumer.read.options import ReplayOptions, SearchOptions, TailOptions
from shipper.commands import Command, program_of

tail_app = program_of({"tail": Command(TailOptions, "consumer.read.tail:tail")})
replay_app = program_of({"replay": Command(ReplayOptions, "consumer.read.tail:replay")})
search_app = program_of({"search": Command(SearchOptions, "consumer.read.search:run")})
