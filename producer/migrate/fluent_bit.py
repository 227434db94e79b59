"""Fluent Bit: inputs `tail`, `systemd` and `syslog`, in the classic format and in YAML."""

import re
from collections.abc import Iterator

from producer.migrate.draft import Draft
from producer.migrate.promtail import ELSEWHERE, RAW
from producer.migrate.tree import Node

_SECTION = re.compile(r"\[(\w+)\]")
_SYSLOG_MODES = {"tcp": "tcp", "udp": "udp", "unix_tcp": "unix-stream", "unix_udp": "unix"}
_TAIL = {"name", "path", "exclude_path", "ignore_older", "read_from_head", "rotate_wait", "tag", "db", "alias"}
_SYSTEMD = {"name", "systemd_filter", "path", "tag", "db", "read_from_tail", "alias"}
_SYSLOG = {"name", "mode", "listen", "port", "path", "tag", "alias"}
_TEXT_KEYS = {"log", "message", "msg"}

Section = tuple[str, int, "list[tuple[str, Node]]"]
"""Kind of a section, its line, and its settings in lower case."""


def sections(text: str) -> Iterator[Section]:
    """The sections of the classic format; a line outside of them is one, too."""
    kind, start, settings = "", 0, list[tuple[str, Node]]()
    for number, line in enumerate(text.splitlines(), start=1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        if found := _SECTION.fullmatch(plain):
            if kind:
                yield kind, start, settings
            kind, start, settings = found[1].lower(), number, []
        elif plain.startswith("@"):
            yield plain.partition(" ")[0].lower(), number, [("", Node(number, plain))]
        else:
            key, _, value = plain.partition(" ") if " " in plain else plain.partition("\t")
            settings.append((key.lower(), Node(number, value.strip())))
    if kind:
        yield kind, start, settings


def sections_of_yaml(root: Node) -> Iterator[Section]:
    """The same of the YAML format."""
    for name, kind in (("inputs", "input"), ("filters", "filter"), ("outputs", "output")):
        for each in root.at("pipeline", name).each():
            settings = [(key.lower(), one) for key, value in each.items() for one in value.each()]
            yield kind, each.line, settings
    for include in root.at("includes").each():
        yield "@include", include.line, [("", include)]


def convert(given: Iterator[Section], draft: Draft) -> None:
    """Read a configuration."""
    for kind, line, settings in given:
        by_name = dict(settings)
        name = by_name.get("name", Node(line, "")).text.lower()
        if kind == "input":
            _input(name, line, settings, draft)
        elif kind == "filter":
            _filter(name, settings, draft)
        elif kind == "output":
            draft.remark(line, f"[OUTPUT] {name}", ELSEWHERE)
        elif kind == "@include":
            draft.remark(line, "@INCLUDE", "name the included file on the command line, too")
        elif kind.startswith("@"):
            draft.remark(line, kind.upper(), "a variable: write its value where it is used")
        elif kind != "service":
            draft.remark(line, f"[{kind.upper()}]", RAW)


def _input(name: str, line: int, settings: list[tuple[str, Node]], draft: Draft) -> None:
    by_name = dict(settings)
    known = {"tail": _TAIL, "systemd": _SYSTEMD, "syslog": _SYSLOG}.get(name)
    if known is None:
        draft.remark(line, f"[INPUT] {name}", "no counterpart")
        return
    if name == "tail":
        _tail(line, by_name, draft)
    elif name == "systemd":
        draft.set(line, "journald", "text")
        for key, value in settings:
            if key == "systemd_filter":
                draft.match_journal(value.line, value.text)
        if path := by_name.get("path"):
            draft.set(path.line, "journald_directory", path.text)
    else:
        _syslog(line, {key: value.text for key, value in settings}, draft)
    for key, value in settings:
        if key not in known:
            raw = key.startswith(("parser", "multiline", "docker_mode"))
            draft.remark(value.line, f"{name}: {key}", RAW if raw else "no counterpart")


def _syslog(line: int, given: dict[str, str], draft: Draft) -> None:
    mode = _SYSLOG_MODES.get(given.get("mode", "unix_udp").lower(), "")
    address = f"{given.get('listen', '[::]')}:{given.get('port', '5140')}"
    draft.listen(line, f"{mode}:{given.get('path', '') if mode.startswith('unix') else address}")


def _tail(line: int, by_name: dict[str, Node], draft: Draft) -> None:
    empty = Node(line, "")
    for pattern in by_name.get("path", empty).text.split(","):
        draft.ship(by_name.get("path", empty).line, pattern.strip())
    for pattern in filter(None, by_name.get("exclude_path", empty).text.split(",")):
        draft.exclude(by_name["exclude_path"].line, pattern.strip())
    if older := by_name.get("ignore_older"):
        draft.set(older.line, "ignore_older", older.text)
    if not by_name.get("read_from_head", empty).is_on:
        draft.set(line, "start_at_end", True)
        draft.remark(line, "read_from_head", "it is off, so files of the first scan begin at their end (start_at_end)")
    if wait := by_name.get("rotate_wait"):
        draft.set(wait.line, "rotate_wait", f"{wait.text}s")


def _filter(name: str, settings: list[tuple[str, Node]], draft: Draft) -> None:
    for key, value in settings:
        field, _, rest = value.text.partition(" ")
        if name == "grep" and key in {"regex", "exclude"} and field in _TEXT_KEYS:
            (draft.keep if key == "regex" else draft.drop)(value.line, rest.strip())
            draft.remark(value.line, f"grep: {key}", "the pattern applies to every file of the host")
        elif name in {"record_modifier", "modify"} and key in {"record", "add", "set"}:
            draft.label(value.line, field, rest.strip())
        elif key not in {"name", "match", "match_regex", "alias"}:
            draft.remark(value.line, f"[FILTER] {name}: {key}", RAW)
