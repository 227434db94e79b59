"""The configuration of any shipper as one model: sections of a kind and a type, with options that know their lines."""

import enum
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from shipper.errors import ConfigError

MAX_DEPTH = 30
MAX_OPTIONS = 10_000


class Kind(enum.StrEnum):
    """What a section does."""

    INPUT = "input"
    FILTER = "filter"
    OUTPUT = "output"
    PROGRAM = "program"  #: settings of the shipper itself


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its dotted name, as `labels.job` or `paths.0`, and its text."""

    name: str
    text: str
    line: int  #: 0: the format has no lines

    @property
    def is_on(self) -> bool:
        """Whether the text switches something on."""
        return self.text.lower() in {"true", "on", "yes", "1"}


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a configuration."""

    kind: Kind
    type: str
    name: str  #: as a person finds it: `scrape_configs[0]`
    options: tuple[Option, ...]
    line: int

    def get(self, name: str, default: str = "") -> str:
        """The text of an option."""
        return next((option.text for option in self.options if option.name == name), default)


def section(kind: Kind, type_: str, name: str, value: object, line: int = 0) -> Section:
    """A section with the options in `value`, a tree of `Located`. Raises ConfigError: there are too many."""
    options = tuple(itertools.islice(flattened(value), MAX_OPTIONS + 1))
    if len(options) > MAX_OPTIONS:  # aliases of YAML multiply
        raise ConfigError(
            f"{name} has more than {MAX_OPTIONS} values", hint="divide it, or write the settings yourself"
        )
    return Section(kind, type_, name, options, line or _line_of(value))


@dataclass(frozen=True, slots=True)
class Located:
    """A value of a tree with its line: a mapping by names, a sequence, or a text."""

    value: "dict[str, Located] | list[Located] | str"
    line: int

    def entries(self) -> "dict[str, Located]":
        """The entries of a mapping; of anything else none."""
        return self.value if isinstance(self.value, dict) else {}

    def items(self) -> "list[Located]":
        """The items of a sequence; a single value counts as one."""
        if isinstance(self.value, list):
            return self.value
        return [] if self.value in ("", {}) else [self]

    def at(self, *names: str) -> "Located":
        """What is below the names; an empty text where there is nothing."""
        found = self
        for name in names:
            found = found.entries().get(name, Located("", self.line))
        return found

    @property
    def text(self) -> str:
        """The text of a leaf; of anything else empty."""
        return self.value if isinstance(self.value, str) else ""


def flattened(tree: object, name: str = "") -> Iterator[Option]:
    """The leaves of a tree of `Located`, by dotted names."""
    if not isinstance(tree, Located):
        return
    if isinstance(tree.value, str):
        yield Option(name, tree.value, tree.line)
    elif isinstance(tree.value, dict):
        for key, below in tree.value.items():
            yield from flattened(below, f"{name}.{key}" if name else key)
    else:
        for number, below in enumerate(tree.value):
            yield from flattened(below, f"{name}.{number}" if name else str(number))


def from_yaml(text: str, path: str) -> Located:
    """The tree of a YAML or JSON document. Raises ConfigError."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path} is no YAML: {reason}", hint="correct it, or pass the shipper with --from") from None
    return Located({}, 1) if node is None else _from_node(node, path, {})


def from_plain(value: object, depth: int = 0) -> Located:
    """The tree of what `tomllib` returns, which has no lines."""
    if depth > MAX_DEPTH:
        return Located("", 0)
    if isinstance(value, dict):
        return Located({str(key): from_plain(below, depth + 1) for key, below in value.items()}, 0)
    if isinstance(value, list):
        return Located([from_plain(below, depth + 1) for below in value], 0)
    return Located(str(value).lower() if isinstance(value, bool) else str(value), 0)


def _from_node(node: yaml.Node, path: str, known: dict[yaml.Node, Located], depth: int = 0) -> Located:
    """The tree below a node. What an alias repeats is one object in `known`."""
    if node in known:
        return known[node]
    line = node.start_mark.line + 1
    if depth > MAX_DEPTH:
        raise ConfigError(
            f"{path}, line {line}: nested too deeply", hint="write the value out where an alias repeats it"
        )
    value: dict[str, Located] | list[Located] | str
    if isinstance(node, yaml.MappingNode):
        pairs = {str(key.value): _from_node(below, path, known, depth + 1) for key, below in node.value}
        merged = pairs.pop("<<", Located({}, line)).entries()
        value = _undotted({**merged, **pairs})
    elif isinstance(node, yaml.SequenceNode):
        value = [_from_node(below, path, known, depth + 1) for below in node.value]
    else:
        value = "" if node.tag == "tag:yaml.org,2002:null" else str(node.value)
    known[node] = Located(value, line)
    return known[node]


def _undotted(pairs: dict[str, Located]) -> dict[str, Located]:
    """`filebeat.inputs: X` as `filebeat: {inputs: X}`: Filebeat takes both."""
    result: dict[str, Located] = {}
    for name, value in pairs.items():
        first, dot, rest = name.partition(".")
        if not dot or not rest:
            result[name] = value
            continue
        before = result.get(first, Located({}, value.line))
        below = _undotted({rest: value})
        result[first] = Located({**before.entries(), **below}, before.line)
    return result


def _line_of(value: object) -> int:
    return value.line if isinstance(value, Located) else 0
