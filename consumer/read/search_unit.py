"""What a search finds: lines or records."""

import enum


class Unit(enum.Enum):
    """What matches, is counted and is shown as one."""

    LINE = "line"
    RECORD = "record"  #: a line with a time, and the lines without one after it
