"""`fshipper partition`: its commands."""

from collections.abc import Mapping

from partitioner import options
from shipper.commands import Command, program_of

COMMANDS: Mapping[str, Command] = {
    "plan": Command(
        options.PlanOptions,
        "partitioner.app:plan",
        ("partition plan --partitions 4", "partition plan --file streams.toml --json"),
        usual="file partitions replicas max-bytes template edge json url",
        exits="2 something would change",
    ),
    "apply": Command(
        options.ApplyOptions,
        "partitioner.app:apply",
        ("partition apply --partitions 4 --max-bytes 50GB", "partition apply --file streams.toml --yes"),
        usual="file partitions replicas max-bytes template edge yes url",
    ),
    "status": Command(options.StatusOptions, "partitioner.app:status", ("partition status", "partition status --json")),
    "export": Command(
        options.ExportOptions,
        "partitioner.desired:export",
        ("partition export --output streams.toml", "partition export LOGS_0 --json"),
    ),
    "import": Command(
        options.ImportOptions, "partitioner.desired:import_", ("partition import stream.json --output streams.toml",)
    ),
    "backup": Command(
        options.BackupOptions,
        "partitioner.backup:backup",
        ("partition backup /srv/backup/today", "partition backup /srv/backup/today --partitions 0-3"),
    ),
    "restore": Command(
        options.RestoreOptions,
        "partitioner.backup:restore",
        (
            "partition restore /srv/backup/today",
            "partition restore /srv/backup/today LOGS_0 --as LOGS_OLD --subjects old.p0.*",
        ),
    ),
    "copy-config": Command(
        options.CopyConfigOptions,
        "partitioner.streams.edit:copy_config",
        ("partition copy-config LOGS_0 LOGS_9 --subjects 'logs.p9.*'",),
    ),
    "edit": Command(
        options.EditOptions,
        "partitioner.streams.edit:edit",
        ("partition edit p3 --set max_bytes=50GB", "partition edit p3"),
        exits="2 with --dry-run: something would change",
    ),
    "purge": Command(options.PurgeOptions, "partitioner.streams.removal:purge", ("partition purge p3 --before 24h",)),
    "rm-message": Command(
        options.RemoveMessageOptions, "partitioner.streams.removal:rm_message", ("partition rm-message p3 1234",)
    ),
    "account": Command(options.AccountOptions, "partitioner.app:account", ("partition account",)),
    "events": Command(
        options.EventsOptions,
        "partitioner.streams.server_events:events",
        ("partition events --for 10m", "partition events --stream p3 --json"),
    ),
    "move": Command(
        options.MoveOptions,
        "partitioner.move.app:move",
        ("partition move --partitions 8 --dry-run", "partition move --partitions 8 --yes"),
        usual="partitions slots override within dry-run yes json url",
        exits="2 with --dry-run: something would change, 69 not finished in time",
    ),
    "balance": Command(options.BalanceOptions, "partitioner.leaders:balance", ("partition balance --dry-run",)),
    "edge": Command(options.EdgeOptions, "partitioner.edge:edge", ("partition edge 100-101",)),
    "serve": Command(
        options.ServeOptions,
        "partitioner.app:serve",
        ("partition serve", "partition serve --max-streams 16 --max-bytes 50GB"),
        usual="max-streams partitions template replicas max-bytes url config",
    ),
}

app = program_of(COMMANDS, "Plan, create, watch, save and mend the streams.")
