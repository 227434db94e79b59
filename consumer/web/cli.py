"""`fshipper web` and `fshipper browse`: which function does their work."""

from consumer.read.options import BrowseOptions
from consumer.web.options import UserOptions, WebOptions
from shipper.commands import Command, program_of

browse_app = program_of({"browse": Command(BrowseOptions, "consumer.web.app:browse")})
web_app = program_of(
    {"user": Command(UserOptions, "consumer.web.user_command:run")},
    "Serve status, search and reports under one address.",
    first=Command(WebOptions, "consumer.web.app:web"),
)
