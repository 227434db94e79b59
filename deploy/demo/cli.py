"""`fshipper demo`: its command."""

from deploy.demo.options import DemoOptions
from shipper.commands import Command, program_of

app = program_of({"demo": Command(DemoOptions, "deploy.demo.app:run")})
