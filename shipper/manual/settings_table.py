"""Lists every setting with its variable, default and meaning, for the documents and the manual."""

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

from pydantic import BaseModel

from shipper.config import ENVIRONMENT
from shipper.settings import Settings

SIZES = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}


class Setting(NamedTuple):
    """One row of the table."""

    key: str
    variable: str
    default: str
    meaning: str


class Section(NamedTuple):
    """The settings of one program."""

    name: str
    text: str
    rows: tuple[Setting, ...]


def sections() -> Iterator[Section]:
    """Every section of the configuration file; the meaning is the `#:` comment after each field."""
    variables = {key: variable for variable, keys in reversed(list(ENVIRONMENT.items())) for key in keys}
    for name, section in Settings():
        kind: type[BaseModel] = type(section)
        comments = dict(re.findall(r"^    (\w+): .*  #: (.*)$", inspect.getsource(kind), re.MULTILINE))
        rows = (
            Setting(key := f"{name}.{field}", variables.get(key, ""), shown(found.default), comments[field])
            for field, found in kind.model_fields.items()
        )
        yield Section(name, inspect.getdoc(kind) or "", tuple(rows))


def shown(value: object) -> str:
    """A default as it would be written in TOML; sizes and seconds are numbers there, too."""
    if value is None or value in ((), "") or value == {} or repr(value) == "PydanticUndefined":
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, int) and value >= min(SIZES.values()) and value % min(SIZES.values()) == 0:
        return next(f"{value // size} {unit}" for unit, size in SIZES.items() if value % size == 0)
    return f"{value:g}" if isinstance(value, float) else str(getattr(value, "value", value))
