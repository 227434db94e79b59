"""`fshipper hosts`: its commands."""

from collections.abc import Mapping

from partitioner.access import options
from shipper.commands import Command, program_of

COMMANDS: Mapping[str, Command] = {
    "init": Command(
        options.InitOptions,
        "partitioner.access.app:init",
        ("hosts init", "hosts init --listen 10.0.0.5:4222 --tls-cert server.pem --tls-key server.key"),
    ),
    "add": Command(
        options.AddOptions,
        "partitioner.access.app:add",
        ("hosts add web1.example.net web2.example.net", "hosts add ams1 --as edge --hosts '*.ams.example.net'"),
    ),
    "list": Command(options.ListOptions, "partitioner.access.app:list_members", ("hosts list",)),
    "migrate": Command(
        options.MigrateOptions,
        "partitioner.access.app:migrate",
        ("hosts migrate --server-config /etc/nats/nats-server.conf", "hosts migrate --finish"),
    ),
    "reads": Command(options.ReadsOptions, "partitioner.access.app:reads", ("hosts reads heartbeats",)),
    "revoke": Command(options.RevokeOptions, "partitioner.access.app:revoke", ("hosts revoke web1.example.net",)),
}

app = program_of(COMMANDS, "Give hosts keys and least rights.")
