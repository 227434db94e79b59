"""`fshipper partition`: its commands."""

from collections.abc import Mapping

from partitioner import options
from shipper.commands import Command, program_of

COMMANDS: Mapping[str, Command] = {
    "plan": Command(options.PlanOptions, "partitioner.app:plan"),
    "apply": Command(options.ApplyOptions, "partitioner.app:apply"),
    "status": Command(options.StatusOptions, "partitioner.app:status"),
    "export": Command(options.ExportOptions, "partitioner.desired:export"),
    "import": Command(options.ImportOptions, "partitioner.desired:import_"),
    "backup": Command(options.BackupOptions, "partitioner.backup:backup"),
    "restore": Command(options.RestoreOptions, "partitioner.backup:restore"),
    "copy-config": Command(options.CopyConfigOptions, "partitioner.streams.edit:copy_config"),
    "edit": Command(options.EditOptions, "partitioner.streams.edit:edit"),
    "purge": Command(options.PurgeOptions, "partitioner.streams.removal:purge"),
    "rm-message": Command(options.RemoveMessageOptions, "partitioner.streams.removal:rm_message"),
    "account": Command(options.AccountOptions, "partitioner.app:account"),
    "events": Command(options.EventsOptions, "partitioner.streams.server_events:events"),
    "move": Command(options.MoveOptions, "partitioner.move.app:move"),
    "balance": Command(options.BalanceOptions, "partitioner.leaders:balance"),
    "edge": Command(options.EdgeOptions, "partitioner.edge:edge"),
    "serve": Command(options.ServeOptions, "partitioner.app:serve"),
}

app = program_of(COMMANDS, "Plan, create, watch, save and mend the streams.")
