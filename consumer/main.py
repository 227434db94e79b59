"""What `fshipper consume` does with its options: runs a collector, until it is stopped or has drained the streams."""

import asyncio
import gc
from functools import partial

from consumer.app import run
from consumer.command import ConsumeOptions
from consumer.model import Until
from shipper.commands import layer_of
from shipper.config import load, places
from shipper.durable_files import readable_by
from shipper.errors import UsageError
from shipper.lifecycle import give_way, keep_freed_memory
from shipper.telemetry import level_of_run, set_up_logging

GARBAGE_THRESHOLD = 50_000
"""New objects until the garbage collector runs. A batch makes thousands and no cycle; frequent runs cost 20 % CPU."""


def consume(options: ConsumeOptions) -> None:
    """Run a collector. Raises UsageError: the options contradict each other. Raises as `run` does."""
    if options.seal and not options.drain:
        raise UsageError("--seal goes with --drain", hint="a collector that runs on seals by itself")
    layer = layer_of(options)
    read = partial(load, layer, config=options.config)
    settings, until = read(), Until.STOPPED
    level, style = settings.log.level, settings.log.format
    if options.drain:
        level = level_of_run(level, is_chosen="log.level" in places(layer, config=options.config), style=style)
        until = Until.SEALED if options.seal else Until.DRAINED
    set_up_logging(style=style, level=level)
    gc.set_threshold(GARBAGE_THRESHOLD)
    keep_freed_memory()
    give_way()
    with readable_by(settings.collector.readable_by):
        asyncio.run(run(settings, until, read=read))
