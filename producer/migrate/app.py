"""`fshipper migrate`: reads configurations of another shipper, and writes ours with remarks."""

import json
import re
import sys
from pathlib import Path

from producer.migrate import filebeat, fluent_bit, promtail, rsyslog, vector
from producer.migrate.draft import Draft
from producer.migrate.options import MigrateOptions, Shipper
from producer.migrate.tree import Node, from_toml, from_yaml
from shipper.errors import EXIT_FINDINGS, EXIT_OK, ConfigError, UsageError
from shipper.units import counted, printable

VERSION = 1
"""Of the JSON; a field is added under the same number, and changed or removed under another."""
MAX_BYTES = 4 * 1024 * 1024
"""Maximum bytes of a configuration."""
YAML_ENDINGS = {".yaml", ".yml"}
SIDE_BY_SIDE = """\
Both can run until you trust the archive, because each reads the files by itself:
  1. fshipper validate --connect --config FILE    checks it, and fshipper produce --dry-run lists the files
  2. start the producer with it, and leave the other shipper as it is
  3. fshipper wait, then fshipper audit --hosts   0 means that the archive has every byte of these files
  4. stop the other shipper; of rsyslog that writes these files, remove only the forwarding
"""
_OF_KEYS = {
    "scrape_configs": Shipper.PROMTAIL,
    "filebeat": Shipper.FILEBEAT,
    "pipeline": Shipper.FLUENT_BIT,
    "sources": Shipper.VECTOR,
}
_CLASSIC = re.compile(r"^\s*\[(INPUT|SERVICE|OUTPUT|FILTER)\]", re.MULTILINE | re.IGNORECASE)
_RSYSLOG = re.compile(r"^\s*(module|input|action)\s*\(|^\s*\$\w+|^\s*[\w,*]+\.[\w*]+\s", re.MULTILINE)


def run(options: MigrateOptions) -> int:
    """The exit code. Raises ConfigError: a file cannot be read. UsageError: it is of no shipper that is known."""
    draft = Draft()
    for path in options.configs:
        draft.file = str(path)
        try:
            _convert(path, _content(path), options.shipper, draft)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}", hint=error.hint) from None
    text = draft.toml([str(path) for path in options.configs])
    if options.as_json:
        remarks = [each._asdict() for each in draft.remarks]
        shown = {"v": VERSION, "toml": text, "nothing_to_ship": draft.is_empty, "remarks": remarks}
        sys.stdout.write(json.dumps(shown, indent=1) + "\n")
        return EXIT_FINDINGS if draft.is_empty else EXIT_OK
    for remark in draft.remarks:
        sys.stderr.write(printable(f"~ {remark}") + "\n")
    if draft.is_empty:
        sys.stderr.write("! nothing to ship was found: name files in producer.files\n")
    _write(text, options.output)
    sys.stderr.write(f"\n{counted(len(draft.remarks), 'remark')}. {SIDE_BY_SIDE}")
    return EXIT_FINDINGS if draft.is_empty else EXIT_OK


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{output} exists", hint="name another file, or remove it") from None


def _content(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError("it is too large for a configuration", hint="name the configuration file")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"it cannot be read: {error.strerror}", hint="correct the path or its permissions") from None


def _convert(path: Path, text: str, shipper: Shipper | None, draft: Draft) -> None:
    if path.suffix == ".toml":
        _of_tree(from_toml(text), shipper, draft)
    elif path.suffix in YAML_ENDINGS or shipper in {Shipper.PROMTAIL, Shipper.FILEBEAT}:
        _of_tree(from_yaml(text), shipper, draft)
    elif shipper is Shipper.FLUENT_BIT or (shipper is None and _CLASSIC.search(text)):
        fluent_bit.convert(fluent_bit.sections(text), draft)
    elif shipper is Shipper.RSYSLOG or (shipper is None and _RSYSLOG.search(text)):
        rsyslog.convert(text, draft)
    else:
        raise _unknown(draft)


def _of_tree(root: Node, shipper: Shipper | None, draft: Draft) -> None:
    keys = [name.partition(".")[0] for name, _ in root.items()]
    found = shipper or next((kind for key, kind in _OF_KEYS.items() if key in keys), None)
    match found:
        case Shipper.PROMTAIL:
            promtail.convert(root, draft)
        case Shipper.FILEBEAT:
            filebeat.convert(root, draft)
        case Shipper.VECTOR:
            vector.convert(root, draft)
        case Shipper.FLUENT_BIT:
            fluent_bit.convert(fluent_bit.sections_of_yaml(root), draft)
        case _:
            raise _unknown(draft)


def _unknown(draft: Draft) -> UsageError:
    names = ", ".join(Shipper)
    return UsageError(f"{draft.file} is no configuration of a known shipper", hint=f"name it with --from: {names}")
