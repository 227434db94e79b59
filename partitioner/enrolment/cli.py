"""`fshipper fleet`, `join`, `leave`: their commands."""

from collections.abc import Mapping

from partitioner.enrolment import options
from shipper.commands import Command, program_of

COMMANDS: Mapping[str, Command] = {
    "init": Command(options.SiteOptions, "partitioner.enrolment.app:init", ("fleet init logs.example.net",)),
    "token": Command(
        options.TokenOptions, "partitioner.enrolment.app:token", ("fleet token web1.example.net --for 2h",)
    ),
    "tokens": Command(options.TokensOptions, "partitioner.enrolment.app:tokens", ("fleet tokens",)),
    "revoke": Command(options.EndOptions, "partitioner.enrolment.app:revoke", ("fleet revoke web1.example.net --yes",)),
    "serve": Command(options.JoinServerOptions, "partitioner.enrolment.app:serve", ("fleet serve",)),
}

app = program_of(COMMANDS, "Make a site, and let hosts join it.")
join_app = program_of(
    {
        "join": Command(
            options.JoinOptions,
            "partitioner.enrolment.host:join",
            ("join TOKEN /var/log/nginx /var/log/syslog",),
            exits="1 refused, 69 the site cannot be reached",
        )
    }
)
leave_app = program_of(
    {
        "leave": Command(
            options.LeaveOptions, "partitioner.enrolment.host:leave", ("leave",), exits="64 it has joined no site"
        )
    }
)
