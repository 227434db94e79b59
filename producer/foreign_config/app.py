"""`fshipper migrate`: reads the configuration of another shipper, writes a producer's, and names what is left."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from producer.foreign_config import filebeat, fluent_bit, promtail, rsyslog, vector
from producer.foreign_config.draft import LISTS, LOG_LEVEL, Claim, Draft, Note, Outcome, SectionRules
from producer.foreign_config.options import MigrateOptions, Shipper
from producer.foreign_config.sections import Kind, Located, Section, from_plain, from_yaml
from shipper.errors import ConfigError, UsageError
from shipper.settings import ProducerSettings
from shipper.units import counted, exact_seconds, printable

VERSION = 1
MAX_BYTES = 4 * 1024 * 1024


def run(options: MigrateOptions) -> int:
    """Write the configuration and the notes. Raises ConfigError, UsageError."""
    text = _text(options.file)
    shipper = options.shipper or detected(options.file.name, text)
    draft = Draft()
    rules, sections = _read(shipper, options.file, text)
    rules.apply(draft, sections)
    claims = draft.settled()
    if not any(section.kind is Kind.INPUT for section in sections):
        raise ConfigError(
            f"{options.file} has no input of {shipper}", hint="pass the file with the inputs, or another --from"
        )
    written = toml(claims, options.file.name, shipper)
    if options.output:
        _write(options.output, written)
    if options.as_json:
        document = {
            "v": VERSION,
            "version": VERSION,  # as of before 0.2.0
            "from": shipper,
            "settings": settings(claims),
            "notes": _notes_json(draft.notes),
        }
        sys.stdout.write(json.dumps(document) + "\n")
    elif not options.output:
        sys.stdout.write(written)
    if not options.as_json:
        target = str(options.output or "producer.toml")
        sys.stderr.write(_report(draft.notes, claims, shipper, options.file, target))
    return 0


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="pass the configuration file of the other shipper") from None
    if len(content) > MAX_BYTES or b"\0" in content:
        raise UsageError(
            f"{path} is no configuration file: it is binary, or larger than {MAX_BYTES >> 20} MiB",
            hint="pass the configuration file of the other shipper",
        )
    return content.decode("utf-8-sig", "replace").replace("\r\n", "\n")


# -- which shipper it is -----------------------------------------------------------------------------------------------

_NAMES = {
    "promtail": Shipper.PROMTAIL,
    "fluent-bit": Shipper.FLUENT_BIT,
    "fluentbit": Shipper.FLUENT_BIT,
    "td-agent-bit": Shipper.FLUENT_BIT,
    "filebeat": Shipper.FILEBEAT,
    "rsyslog": Shipper.RSYSLOG,
    "vector": Shipper.VECTOR,
}
_SIGNS = {
    Shipper.PROMTAIL: r"^scrape_configs\s*:",
    Shipper.FILEBEAT: r"^filebeat(\.|\s*:)",
    Shipper.FLUENT_BIT: r"^\s*\[(INPUT|SERVICE|FILTER|OUTPUT)\]|^pipeline\s*:",
    Shipper.VECTOR: r"^\[(sources|sinks|transforms)\.|^(sources|sinks)\s*:|^\s*\"sources\"\s*:",
    Shipper.RSYSLOG: r"^\s*(\$ModLoad|\$IncludeConfig|module\s*\(|input\s*\(|action\s*\()|^[\w*,;]+\.[*\w]+.*\s-?(/|@)",
}


def detected(name: str, text: str) -> Shipper:
    """Whose configuration it is, by its content or, where that leaves it open, by its name. Raises UsageError."""
    found = [shipper for shipper, sign in _SIGNS.items() if re.search(sign, text, re.MULTILINE | re.IGNORECASE)]
    named = [shipper for part, shipper in _NAMES.items() if part in name.lower()]
    if len(found) == 1:
        return found[0]
    if named and (not found or named[0] in found):
        return named[0]
    raise UsageError(
        f"whose configuration {name} is cannot be seen from its name or content",
        hint=f"pass it: --from {', --from '.join(Shipper)}",
    )


def _read(shipper: Shipper, path: Path, text: str) -> tuple[SectionRules, Sequence[Section]]:
    match shipper:
        case Shipper.PROMTAIL:
            return promtail.RULES, list(promtail.sections(from_yaml(text, str(path))))
        case Shipper.FILEBEAT:
            return filebeat.RULES, list(filebeat.sections(from_yaml(text, str(path))))
        case Shipper.VECTOR:
            return vector.RULES, list(vector.sections(_tree(text, path)))
        case Shipper.RSYSLOG:
            return rsyslog.RULES, rsyslog.sections(path, text)
        case Shipper.FLUENT_BIT:
            if re.search(r"^\s*\[\w+\]", text, re.MULTILINE):
                return fluent_bit.RULES, fluent_bit.classic(path, text)
            return fluent_bit.RULES, list(fluent_bit.sections(from_yaml(text, str(path))))


def _tree(text: str, path: Path) -> Located:
    if path.suffix == ".toml" or re.search(r"^\[[\w.\"]+\]", text, re.MULTILINE):
        try:
            return from_plain(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            hint = "correct it, or pass the shipper with --from"
            raise ConfigError(f"{path} is no TOML: {error}", hint=hint) from None
    return from_yaml(text, str(path))


# -- what is written ---------------------------------------------------------------------------------------------------


def settings(claims: Sequence[Claim]) -> dict[str, Any]:
    """The settings by their dotted keys."""
    found: dict[str, Any] = {}
    for claim in claims:
        key = claim.key if claim.key == LOG_LEVEL else f"producer.{claim.key}"
        if claim.key in LISTS:
            found.setdefault(key, []).append(claim.value)
        else:
            found[key] = claim.value
    return found


def toml(claims: Sequence[Claim], source: str, shipper: Shipper) -> str:
    """The configuration of a producer; each value names the line that it comes from."""
    by_key: dict[str, list[Claim]] = {}
    order = list(ProducerSettings.model_fields)
    for claim in sorted(claims, key=lambda claim: order.index(claim.key) if claim.key in order else len(order)):
        by_key.setdefault(claim.key, []).append(claim)
    labels = {key: by_key.pop(key) for key in list(by_key) if key.startswith("labels.")}
    level = by_key.pop(LOG_LEVEL, [])
    lines = [
        f"# Made by `fshipper migrate` from {printable(source)} ({shipper}).",
        "# Check it: fshipper validate --config THIS-FILE; fshipper produce --config THIS-FILE --dry-run",
        "",
        "[nats]",
        '# url = "nats://logs.example.net:4222"  # the server of the streams; default: this machine',
        "",
        "[producer]",
    ]
    for key, found in by_key.items():
        if key in LISTS:
            lines += [f"{key} = [", *(f"  {_value(each.value)},{_origin(each)}" for each in found), "]"]
        else:
            lines.append(f"{key} = {_value(found[0].value)}{_origin(found[0])}")
    if labels:
        lines += ["", "[producer.labels]"]
        lines += [
            f"{_value(key.partition('.')[2])} = {_value(found[0].value)}{_origin(found[0])}"
            for key, found in labels.items()
        ]
    if level:
        lines += ["", "[log]", f"level = {_value(level[0].value)}{_origin(level[0])}"]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, float):
        value = exact_seconds(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's texts, numbers, truths are TOML's


def _origin(claim: Claim) -> str:
    return f"  # line {claim.line}" if claim.line else ""


def _write(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    except FileExistsError:
        raise UsageError(f"{path} exists already", hint="name another file, or move it away") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name another file with --output") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


# -- the report ------------------------------------------------------------------------------------------------------

_HEADINGS = {
    Outcome.MISSING: "No counterpart; decide on each:",
    Outcome.REPLACED: "Done elsewhere:",
    Outcome.NOT_NEEDED: "Not needed:",
}


def _notes_json(notes: Sequence[Note]) -> list[dict[str, Any]]:
    return [{"outcome": each.outcome, "place": each.place, "line": each.line, "text": each.text} for each in notes]


def _report(notes: Sequence[Note], claims: Sequence[Claim], shipper: Shipper, source: Path, target: str) -> str:
    lines = ["", f"{source}: {counted(len(claims), 'value')} of {shipper} became settings of a producer."]
    for outcome, heading in _HEADINGS.items():
        places: dict[str, list[str]] = {}
        for note in notes:
            if note.outcome is outcome:
                places.setdefault(note.text, []).append(printable(_where(note)))
        if places:
            lines += ["", heading]
        for text, found in places.items():
            lines += [f"  {text}", *(f"      {place}" for place in found)]
    lines += ["", *_side_by_side(claims, shipper, target)]
    return "\n".join(lines) + "\n"


def _where(note: Note) -> str:
    return f"line {note.line}: {note.place}" if note.line else note.place


def _side_by_side(claims: Sequence[Claim], shipper: Shipper, target: str) -> list[str]:
    """The steps from here to the end of the other shipper."""
    listens = any(claim.key == "syslog" for claim in claims)
    both = "except for the syslog ports, see above" if listens else "neither changes what the other reads"
    return [
        "Next, with both running:",
        f"  1. fshipper validate --config {target} --connect",
        f"  2. fshipper produce --config {target} --dry-run     # which files, and from which byte",
        f"  3. fshipper produce --config {target}               # in parallel with {shipper}: {both}",
        "  4. fshipper audit --hosts                                # in the centre: complete, for a day or two",
        "  5. fshipper search TEXT --count=host                     # the same numbers as the old search",
        f"  6. Then stop {shipper}.",
    ]
