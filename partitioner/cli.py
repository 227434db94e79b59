"""`fshipper partition`: its commands. What a command runs is imported when it is called."""

import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import typer

from partitioner import options
from shipper.interrupts import importing

COMMANDS: Mapping[str, tuple[type, str]] = {
    "plan": (options.PlanOptions, "partitioner.app:plan"),
    "apply": (options.ApplyOptions, "partitioner.app:apply"),
    "status": (options.StatusOptions, "partitioner.app:status"),
    "export": (options.ExportOptions, "partitioner.desired:export"),
    "import": (options.ImportOptions, "partitioner.desired:import_"),
    "backup": (options.BackupOptions, "partitioner.backup:backup"),
    "restore": (options.RestoreOptions, "partitioner.backup:restore"),
    "copy-config": (options.CopyConfigOptions, "partitioner.streams.edit:copy_config"),
    "edit": (options.EditOptions, "partitioner.streams.edit:edit"),
    "purge": (options.PurgeOptions, "partitioner.streams.removal:purge"),
    "rm-message": (options.RemoveMessageOptions, "partitioner.streams.removal:rm_message"),
    "account": (options.AccountOptions, "partitioner.app:account"),
    "events": (options.EventsOptions, "partitioner.streams.server_events:events"),
    "move": (options.MoveOptions, "partitioner.move.app:move"),
    "balance": (options.BalanceOptions, "partitioner.leaders:balance"),
    "edge": (options.EdgeOptions, "partitioner.edge:edge"),
    "serve": (options.ServeOptions, "partitioner.app:serve"),
}
"""By name: the options, whose docstring is the help, and the function that takes them."""
LAST = ("url", "config", "subject", "log_format", "log_level")
"""What the help of every command shows last."""

app = typer.Typer(help="Plan, create, watch, save and mend the streams.", add_completion=False, rich_markup_mode=None)


def _command(declared: type, work: str) -> Callable[..., None]:
    """A function for typer with the fields of `declared` as its parameters."""

    def run(**given: Any) -> None:
        with importing():
            do = pkgutil.resolve_name(work)
        do(declared(**given))

    fields = inspect.signature(declared).parameters.values()
    ordered = sorted(fields, key=lambda field: LAST.index(field.name) if field.name in LAST else -1)
    run.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    run.__annotations__ = get_type_hints(declared, include_extras=True)
    run.__doc__ = declared.__doc__
    return run


for _name, _work in COMMANDS.items():
    app.command(_name)(_command(*_work))
