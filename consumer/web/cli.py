"""`fshipper web` and `fshipper browse`: which function does their work."""

from consumer.read.options import BrowseOptions
from consumer.web.options import UserOptions, WebOptions
from shipper.commands import Command, program_of

browse_app = program_of(
    {
        "browse": Command(
            BrowseOptions,
            "consumer.web.app:browse",
            ("browse", "browse --archive /srv/archive --open"),
            exits="69 the address is in use, 78 no archive",
        )
    }
)
web_app = program_of(
    {
        "user": Command(
            UserOptions,
            "consumer.web.user_command:run",
            ("web user alice --role operator", "web user alice --remove"),
            exits="64 a name or password is refused",
        )
    },
    "Serve status, search and reports under one address.",
    first=Command(
        WebOptions,
        "consumer.web.app:web",
        ("web", "web --listen 127.0.0.1:9603 --report /var/lib/fshipper/report"),
        usual="listen archive report accounts user-header operator open config",
        exits="69 the address is in use, 78 no archive or unsafe accounts",
    ),
)
