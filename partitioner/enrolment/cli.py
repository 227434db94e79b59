"""`fshipper fleet`, `join`, `leave`: their commands."""

from collections.abc import Mapping

from partitioner.enrolment import options
from shipper.commands import Command, program_of

COMMANDS: Mapping[str, Command] = {
    "init": Command(options.SiteOptions, "partitioner.enrolment.app:init"),
    "token": Command(options.TokenOptions, "partitioner.enrolment.app:token"),
    "tokens": Command(options.TokensOptions, "partitioner.enrolment.app:tokens"),
    "revoke": Command(options.EndOptions, "partitioner.enrolment.app:revoke"),
    "serve": Command(options.JoinServerOptions, "partitioner.enrolment.app:serve"),
}

app = program_of(COMMANDS, "Make a site, and let hosts join it.")
join_app = program_of({"join": Command(options.JoinOptions, "partitioner.enrolment.host:join")})
leave_app = program_of({"leave": Command(options.LeaveOptions, "partitioner.enrolment.host:leave")})
