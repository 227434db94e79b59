"""The stream template: a JSON file with `{n}` and `{subject}` that is expanded for each partition.

nats-server had stream templates of its own and removed them in 2.14, so the expansion happens here.
"""

import dataclasses
import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partitioner.diff import merged
from shipper.errors import ConfigError

Json = dict[str, Any]

SECTIONS = ("stream", "consumer", "dead_letters", "advisories")


@dataclass(frozen=True, slots=True)
class Template:
    """The configuration of every partition's stream and consumer, and of the streams of dead letters and advisories."""

    stream: Mapping[str, Any]
    consumer: Mapping[str, Any]
    dead_letters: Mapping[str, Any]
    advisories: Mapping[str, Any]


def shipped() -> Template:
    """The template that comes with the program."""
    resource = importlib.resources.files("deploy") / "nats" / "stream.json"
    return parse(resource.read_text(encoding="utf-8"), "deploy/nats/stream.json")


def read(path: Path) -> Template:
    """The template in `path`; a section that it leaves out is the shipped one.

    Raises:
        ConfigError: the file cannot be read, or is no template.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"template {path}: {error}", hint="correct --template") from None
    return parse(text, str(path), shipped())


def parse(text: str, place: str, default: Template | None = None) -> Template:
    """The template in `text`, which was found at `place`.

    Raises:
        ConfigError: it is no JSON, has an unknown section, or lacks one that `default` does not fill.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"template {place} is no JSON: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(section, dict) for section in content.values()):
        raise ConfigError(f"template {place} is not an object of the sections {', '.join(SECTIONS)}")
    unknown = sorted(set(content) - set(SECTIONS))
    if unknown:
        raise ConfigError(f"template {place}: unknown section {unknown[0]!r}", hint=f"known are {', '.join(SECTIONS)}")
    sections = (dataclasses.asdict(default) if default else {}) | content
    missing = [name for name in SECTIONS if name not in sections]
    if missing:
        raise ConfigError(f"template {place} has no section {missing[0]!r}")
    return Template(**sections)


def merged_sections(template: Template, sections: Mapping[str, Mapping[str, Any]]) -> Template:
    """`template` with the fields of `sections` over its own; metadata grows."""
    return dataclasses.replace(
        template, **{name: merged(fields, getattr(template, name)) for name, fields in sections.items()}
    )


def expand(value: Any, *, subject: str, partition: int) -> Any:
    """`value` with `{n}` and `{subject}` replaced in every text, however deep; other braces stay as they are."""
    if isinstance(value, str):
        return value.replace("{n}", str(partition)).replace("{subject}", subject)
    if isinstance(value, Mapping):
        return {key: expand(inner, subject=subject, partition=partition) for key, inner in value.items()}
    if isinstance(value, list):
        return [expand(inner, subject=subject, partition=partition) for inner in value]
    return value
