"""Whether a collector can work with its settings: asked by `fshipper validate --role collector`."""

from collections.abc import Iterator

from consumer.sharing.life import layout_of
from shipper.settings import Settings


def check(settings: Settings) -> Iterator[str]:
    """What is as it should be, in sentences. Raises ConfigError: the settings contradict each other."""
    where = layout_of(settings.collector)
    yield f"output: {where.template}" if where.template else "output: one directory a day, partition and host"
    chosen = settings.collector.read_partitions
    yield f"partitions {', '.join(map(str, chosen))}" if chosen else "every partition that has a stream"
