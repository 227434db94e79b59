"""`fshipper dlq ls|show|requeue|drop`: messages that no collector could apply."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from shipper.errors import UsageError
from shipper.interrupts import importing

app = typer.Typer(help="Show, requeue or drop dead letters.", add_completion=False, rich_markup_mode=None)

Numbers = Annotated[list[int] | None, typer.Argument(help="Numbers of dead letters, as `ls` shows them.")]
All = Annotated[bool, typer.Option("--all", help="All of them, or all that the filters choose.")]
Host = Annotated[str, typer.Option(help="Only of this host.")]
Stream = Annotated[str, typer.Option(help="Only from this stream, as LOGS_0.")]
Reason = Annotated[str, typer.Option(help="Only where the reason holds this text.")]
Url = Annotated[str | None, typer.Option(help="NATS servers, separated by commas (NATS_URL).")]
Config = Annotated[Path | None, typer.Option(help="Configuration file (SHIPPER_CONFIG).")]
Subject = Annotated[str | None, typer.Option(help="First token of the subjects (SHIPPER_SUBJECT).")]


@app.command()
def ls(
    *,
    host: Host = "",
    stream: Stream = "",
    reason: Reason = "",
    limit: Annotated[int, typer.Option(min=0, help="At most so many, the newest; 0: all.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: an object a line.")] = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """List dead letters, newest first, and what the server gave up delivering."""
    with importing():
        from consumer.dlq import app as dlq  # noqa: PLC0415 - `--help` needs none of it

    wanted = dlq.filter_of(host, stream, reason)
    dlq.ls(dlq.settings_of(url, config, subject), wanted, limit=limit, as_json=as_json)


@app.command(name="show")
def show_one(
    *,
    number: Annotated[int, typer.Argument(help="Number of the dead letter.")],
    raw: Annotated[bool, typer.Option("--raw", help="The payload's bytes and nothing else.")] = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Show one dead letter: the reason, its headers, the beginning of its payload."""
    with importing():
        from consumer.dlq import app as dlq  # noqa: PLC0415

    dlq.show(dlq.settings_of(url, config, subject), number, raw=raw)


@app.command()
def requeue(
    *,
    numbers: Numbers = None,
    everything: All = False,
    host: Host = "",
    stream: Stream = "",
    reason: Reason = "",
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Send their text to the collector, for a `.recovered` file next to the original. Repeating it is safe."""
    with importing():
        from consumer.dlq import app as dlq  # noqa: PLC0415

    wanted, chosen = dlq.filter_of(host, stream, reason), _chosen(numbers, everything, host + stream + reason)
    dlq.requeue(dlq.settings_of(url, config, subject), wanted, chosen)


@app.command()
def drop(
    *,
    numbers: Numbers = None,
    everything: All = False,
    host: Host = "",
    stream: Stream = "",
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not prompt.")] = False,
    url: Url = None,
    config: Config = None,
    subject: Subject = None,
) -> None:
    """Remove dead letters for good; what was dropped is written to standard error."""
    with importing():
        from consumer.dlq import app as dlq  # noqa: PLC0415

    wanted, chosen = dlq.filter_of(host, stream, reason), _chosen(numbers, everything, host + stream + reason)
    dlq.drop(dlq.settings_of(url, config, subject), wanted, chosen, lambda count: _confirm(count, yes=yes))


def _confirm(count: int, *, yes: bool) -> None:
    """Prompt before the only copy of bytes is removed. Raises UsageError: no terminal, or the answer is no."""
    if yes:
        return
    what = f"{count} dead letter{'s' if count > 1 else ''}"
    if not sys.stdin.isatty():
        raise UsageError(
            f"this removes {what} for good, and there is no terminal for a prompt",
            hint="--yes removes without a prompt",
        )
    if not typer.confirm(f"Remove {what} for good?"):
        raise UsageError("nothing was removed")


def _chosen(numbers: list[int] | None, everything: bool, filters: str) -> list[int]:
    """The numbers; none where `--all` is given. Raises UsageError: both, or neither."""
    if bool(numbers) == everything:
        raise UsageError("name the numbers of dead letters, or --all", hint="fshipper dlq ls shows the numbers")
    if numbers and filters:
        raise UsageError("--host, --stream and --reason go with --all")
    return numbers or []
