"""`fshipper hosts`: its commands."""

from collections.abc import Mapping

from partitioner.access import options
from shipper.commands import Command, program_of

COMMANDS: Mapping[str, Command] = {
    "init": Command(options.InitOptions, "partitioner.access.app:init"),
    "add": Command(options.AddOptions, "partitioner.access.app:add"),
    "list": Command(options.ListOptions, "partitioner.access.app:list_members"),
    "migrate": Command(options.MigrateOptions, "partitioner.access.app:migrate"),
    "reads": Command(options.ReadsOptions, "partitioner.access.app:reads"),
    "revoke": Command(options.RevokeOptions, "partitioner.access.app:revoke"),
}

app = program_of(COMMANDS, "Give hosts keys and least rights.")
