"""What a user of the pages may do."""

import enum


class Role(enum.StrEnum):
    """A reader sees everything; an operator may also do what costs much or changes something."""

    READER = "reader"
    OPERATOR = "operator"
