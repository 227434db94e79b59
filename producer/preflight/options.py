"""The options of `fshipper validate`."""

import enum


class Role(enum.StrEnum):
    """Whose settings are meant."""

    HOST = "host"
    COLLECTOR = "collector"
    PARTITIONER = "partitioner"
    REPORT = "report"
    BROWSE = "browse"
