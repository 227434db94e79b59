"""What a user of the pages may do."""

import enum


class Role(enum.StrEnum):
    """A reader looks; an operator may also do what costs much, takes data away, or changes something."""

    READER = "reader"
    OPERATOR = "operator"
