"""Typed JSON: classes of fields as JSON objects, on the wire and in the archive.

The type of a field decides how it is read. An annotation (`Annotated[int, count(most=9), Name("from"), IF_SET]`) adds
bounds, the name in JSON, or that the field is left out while it has its default. `tolerant` reads what any client may
have sent, `strict` what only fshipper writes. Both ignore unknown fields; `exact` refuses them.
"""

import enum
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final, NamedTuple, Never, TypeVar, get_type_hints

Fields = Mapping[str, Any]
"""The fields of a JSON object."""
Reader = Callable[[Any], Any]
"""The value of a field from its JSON value. Raises ValueError or TypeError: the JSON value is wrong."""
MAX_COUNT = (1 << 63) - 1

_K = TypeVar("_K")
_SIMPLE = frozenset((str, int, float, bool))


class Name(NamedTuple):
    """Marks a field that has another name in JSON."""

    name: str


class Absent(NamedTuple):
    """Marks a field without a default that may be absent in JSON: the value that it has then."""

    value: Any


class _IfSet(enum.Enum):
    IF_SET = enum.auto()


IF_SET: Final = _IfSet.IF_SET
"""Marks a field that is written only while it differs from its default."""


class _Field(NamedTuple):
    attribute: str
    name: str
    read: Reader
    default: Any  # MISSING: the field is required
    is_written_if_set: bool


# -- objects --------------------------------------------------------------------------------------------------------


def object_in(content: bytes, *, version: int | None = None) -> dict[str, Any]:
    """The JSON object in `content`. Raises ValueError: it is something else, or its field `v` is not `version`."""
    try:
        found = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(found, dict) or (version is not None and found.get("v") != version):
        raise ValueError("no JSON object" if version is None else f"no JSON object of version {version}")
    return found


def written(record: Any) -> dict[str, Any]:
    """The fields of `record` in JSON."""
    found = {}
    for attribute, name, _, default, is_written_if_set in _fields(type(record)):
        value = getattr(record, attribute)
        if not is_written_if_set or value != default:
            found[name] = value if type(value) in _SIMPLE else _plain(value)
    return found


def tolerant(kind: type[_K], found: Any) -> _K | None:
    """The `kind` in a JSON object in which a wrong value counts as absent; None: a required field is absent."""
    if not isinstance(found, Mapping):
        return None
    values = {}
    for attribute, name, read, default, _ in _fields(kind):
        try:
            values[attribute] = read(found[name])
        except (KeyError, ValueError, TypeError):
            if default is MISSING:
                return None
            values[attribute] = default
    return kind(**values)


def strict(kind: type[_K], found: Any) -> _K:
    """The `kind` in a JSON object. Raises ValueError: a required field is absent, or a value is wrong."""
    if not isinstance(found, Mapping):
        raise ValueError(f"{kind.__name__}: no JSON object")
    values = {}
    for attribute, name, read, default, _ in _fields(kind):
        try:
            if name in found:
                values[attribute] = read(found[name])
            elif default is MISSING:
                raise ValueError("absent")
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"{name}: {error}") from None
    return kind(**values)


def exact(kind: type[_K], found: Any) -> _K:
    """As `strict`, but an unknown field raises ValueError, too."""
    if isinstance(found, Mapping) and (unknown := found.keys() - {field.name for field in _fields(kind)}):
        raise ValueError(f"unknown field {min(unknown)}")
    return strict(kind, found)


# -- readers of one value -------------------------------------------------------------------------------------------


def count(least: int = 0, most: int = MAX_COUNT) -> Reader:
    """A whole number within bounds."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"no whole number from {least} to {most}")
        return value

    return read


def text(most: int) -> Reader:
    """A text of at most `most` characters."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or len(value) > most:
            raise ValueError(f"no text of at most {most} characters")
        return value

    return read


def items(read: Reader, most: int | None = None) -> Reader:
    """A list of values that `read` reads, of which the first `most` count."""

    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError("no list")
        return tuple(map(read, value[:most]))

    return read_all


def table(read: Reader) -> Reader:
    """An object with any names, of values that `read` reads."""

    def read_all(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError("no JSON object")
        return {name: read(each) for name, each in value.items()}

    return read_all


def typed(kind: type) -> Reader:
    """A value of exactly this type: true is no number."""

    def read(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(f"wrong type, not {kind.__name__}")
        return value

    return read


# -- the fields of a class ------------------------------------------------------------------------------------------


_KNOWN: dict[type, tuple[_Field, ...]] = {}


def _fields(kind: type) -> tuple[_Field, ...]:
    """The fields of a class, which are found once."""
    if kind not in _KNOWN:
        _KNOWN[kind] = tuple(_fields_of(kind))
    return _KNOWN[kind]


def _fields_of(kind: type) -> Iterator[_Field]:
    hints = get_type_hints(kind, include_extras=True)
    for attribute, default in _defaults(kind).items():
        hint = hints[attribute]
        marks = getattr(hint, "__metadata__", ())
        name = next((mark.name for mark in marks if isinstance(mark, Name)), attribute)
        absent = next((mark.value for mark in marks if isinstance(mark, Absent)), default)
        read = next((mark for mark in reversed(marks) if callable(mark)), None) or typed(
            getattr(hint, "__origin__", hint)
        )
        yield _Field(attribute, name, read, absent, IF_SET in marks)


def _defaults(kind: Any) -> dict[str, Any]:
    """The default of each field of a data class or a named tuple; MISSING: it has none."""
    if issubclass(kind, tuple):
        return {name: kind._field_defaults.get(name, MISSING) for name in kind._fields}
    return {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if hasattr(value, "__dataclass_fields__") or hasattr(value, "_fields"):
        return written(value)
    if isinstance(value, tuple):
        return [each if type(each) in _SIMPLE else _plain(each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value.value if isinstance(value, enum.Enum) else value


def _no_number(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
