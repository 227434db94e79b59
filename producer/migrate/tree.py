"""YAML and TOML with the line of each value."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from shipper.errors import ConfigError

MAX_NODES = 100_000
"""Maximum values of a document: an alias may stand for thousands of others."""
_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a document: a mapping, a list or a text."""

    line: int
    value: "dict[str, Node] | list[Node] | str"

    def __bool__(self) -> bool:
        return bool(self.value)

    def at(self, *path: str) -> "Node":
        """What is below; an empty text where nothing is."""
        node = self
        for name in path:
            node = node.value.get(name, Node(node.line, "")) if isinstance(node.value, dict) else Node(node.line, "")
        return node

    def items(self) -> "Iterator[tuple[str, Node]]":
        """Names and values of a mapping."""
        yield from self.value.items() if isinstance(self.value, dict) else ()

    def each(self) -> "Iterator[Node]":
        """The values of a list; a text is a list of one."""
        if isinstance(self.value, list):
            yield from self.value
        elif self.value and isinstance(self.value, str):
            yield self

    @property
    def text(self) -> str:
        """The text; empty for a mapping or a list."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def is_on(self) -> bool:
        """Whether it is a text for yes."""
        return self.text.lower() in {"true", "yes", "on", "1"}

    @property
    def is_off(self) -> bool:
        """Whether it is a text for no."""
        return self.text.lower() in {"false", "no", "off", "0"}


def from_yaml(text: str) -> Node:
    """The first document. Raises ConfigError: it is not valid."""
    try:
        root = next(iter(yaml.compose_all(text, Loader=yaml.SafeLoader)), None)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        raise ConfigError(f"{where}{getattr(error, 'problem', None) or error}", hint="is it YAML?") from None
    left = [MAX_NODES]
    return _of_yaml(root, left) if root is not None else Node(1, "")


def _of_yaml(node: Any, left: list[int]) -> Node:
    left[0] -= 1
    if left[0] < 0:
        raise ConfigError(f"it has more than {MAX_NODES:,} values", hint="aliases may stand for many values")
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        found = {}
        for key, value in node.value:  # a setting is on the line of its name
            found[str(key.value)] = Node(key.start_mark.line + 1, _of_yaml(value, left).value)
        return Node(line, found)
    if isinstance(node, yaml.SequenceNode):
        return Node(line, [_of_yaml(each, left) for each in node.value])
    return Node(line, "" if node.tag.endswith(":null") else str(node.value))


def from_toml(text: str) -> Node:
    """The document. Raises ConfigError: it is not valid."""
    try:
        root = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(error), hint="is it TOML?") from None
    return _of_toml(root, (), _lines(text), 1)


def _of_toml(value: Any, path: tuple[str, ...], lines: dict[tuple[str, ...], int], line: int) -> Node:
    line = lines.get(path, line)
    if isinstance(value, dict):
        return Node(line, {key: _of_toml(each, (*path, key), lines, line) for key, each in value.items()})
    if isinstance(value, list):
        return Node(line, [_of_toml(each, path, lines, line) for each in value])
    return Node(line, str(value).lower() if isinstance(value, bool) else str(value))


def _lines(text: str) -> dict[tuple[str, ...], int]:
    """The line of each table and key that begins one."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = tuple(part.strip().strip("\"'") for part in header[1].split("."))
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *(part.strip("\"'") for part in key[1].split("."))), number)
    return found
