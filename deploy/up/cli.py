"""`fshipper up` and `fshipper down`: which functions do their work."""

from deploy.up.options import DownOptions, UpOptions
from shipper.commands import Command, program_of

up_app = program_of(
    {
        "up": Command(
            UpOptions,
            "deploy.up.app:up",
            ("up", "up /srv/shop/log '/var/log/nginx/*.log'"),
            exits="69 it runs with other paths or a program is missing, 78 a path or too little disk space",
        )
    }
)
down_app = program_of(
    {
        "down": Command(
            DownOptions,
            "deploy.up.app:down",
            ("down", "down --remove"),
            exits="64 not confirmed, 78 it is of another user",
        )
    }
)
