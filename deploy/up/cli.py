"""`fshipper up` and `fshipper down`: which functions do their work."""

from deploy.up.options import DownOptions, UpOptions
from shipper.commands import Command, program_of

up_app = program_of({"up": Command(UpOptions, "deploy.up.app:up")})
down_app = program_of({"down": Command(DownOptions, "deploy.up.app:down")})
