"""Entry point of `python -m spark_analytics` and `spark-submit`: the report without the `fshipper` command."""

import os
import signal
import sys
from pathlib import Path

if __name__ == "__main__":  # Ctrl-C while the rest is imported
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))

if not __package__:  # as a script: modules of this folder must not shadow others
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

import typer

from shipper.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_OTHER, EXIT_USAGE, ShipperError
from spark_analytics.cli import app

CLICK_USAGE = 2
"""The exit code of click for an invalid command line."""


def main(arguments: list[str] | None = None) -> int:
    """Runs the report and returns its exit code; errors go to stderr as one sentence and a hint."""
    command = typer.main.get_command(app)
    try:
        outcome = command.main(arguments, prog_name="report", standalone_mode=False)
    except ShipperError as error:
        sys.stderr.write(f"error: {error}\n")
        if error.hint:
            sys.stderr.write(f"hint: {error.hint}\n")
        return error.exit_code
    except typer.TyperException as error:
        message = getattr(error, "format_message", error.__str__)()
        sys.stderr.write(f"error: {message}\nhint: see --help\n")
        return EXIT_USAGE if getattr(error, "exit_code", CLICK_USAGE) == CLICK_USAGE else EXIT_OTHER
    except (typer.Abort, KeyboardInterrupt):
        sys.stderr.write("error: interrupted\n")
        return EXIT_INTERRUPTED
    return outcome if isinstance(outcome, int) else EXIT_OK


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
