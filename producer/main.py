"""What `fshipper produce` does with its options: ship, or print what would be shipped."""

from functools import partial

from producer.app import run
from producer.command import ProduceOptions
from shipper.commands import layer_of
from shipper.config import load, places
from shipper.errors import UsageError
from shipper.interrupts import importing
from shipper.settings import Settings
from shipper.telemetry import level_of_run, set_up_logging


def produce(options: ProduceOptions) -> None:
    """Ship, or print what would be shipped. Raises UsageError: of the options; as `run`."""
    layer = {**layer_of(options), "producer.watch": False if options.no_watch else None}
    read = partial(load, layer, config=options.config)
    settings = read()
    if options.dry_run:
        return _dry_run(settings, options)
    if options.as_json:
        raise UsageError("--json goes with --dry-run only")
    if options.show_redacted:
        raise UsageError("--show-redacted goes with --dry-run only")
    level, style = settings.log.level, settings.log.format
    if options.once:
        level = level_of_run(level, is_chosen="log.level" in places(layer, config=options.config), style=style)
    set_up_logging(style=style, level=level)
    return run(settings, once=options.once, read=read)


def _dry_run(settings: Settings, options: ProduceOptions) -> None:
    with importing():  # its tables would double what a producer takes to start
        from producer.preflight.dry_run import report  # noqa: PLC0415
        from producer.preflight.redacted_lines import redacted_lines  # noqa: PLC0415
        from producer.preflight.report import print_report  # noqa: PLC0415

    set_up_logging(style=settings.log.format, level="critical")  # what it does to the copy is no event
    found = report(settings, once=options.once)
    reads = [(each.path, each.start) for each in found.reads]
    redacted = redacted_lines(settings.producer, reads) if options.show_redacted else None
    print_report(found, redacted, as_json=options.as_json)
