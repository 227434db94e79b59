"""Filebeat: inputs of files, of the journal and of syslog."""

from producer.migrate.draft import Draft
from producer.migrate.promtail import ELSEWHERE, RAW
from producer.migrate.tree import Node

_FILES = {"log", "filestream", "container", ""}
_SYSLOG = {"syslog", "tcp", "udp", "unix"}
_READ = {"type", "id", "enabled", "paths", "exclude_files", "exclude_lines", "include_lines", "fields", "tags"}
_READ |= {"encoding", "ignore_older", "tail_files", "prospector", "input_type", "include_matches", "protocol", "host"}


def convert(root: Node, draft: Draft) -> None:
    """Read a configuration."""
    root = _nested(root)
    filebeat = root.at("filebeat")
    for each in (*filebeat.at("inputs").each(), *filebeat.at("prospectors").each()):
        if each.at("enabled").is_off:
            draft.remark(each.line, "input", "it is not enabled, and left out")
        else:
            _input(each, draft)
    for name, value in filebeat.items():
        if name == "modules" or name.startswith("config"):
            draft.remark(value.line, f"filebeat.{name}", "name the files of the modules in producer.files")
    for processor in root.at("processors").each():
        for name, value in processor.items():
            _processor(name, value, draft)
    for name, value in root.items():
        if name not in {"filebeat", "processors", "logging", "name", "setup", "path"}:
            draft.remark(value.line, name, ELSEWHERE if name == "output" else "no counterpart")


def _nested(node: Node) -> Node:
    """`a.b: c` as `a: {b: c}`."""
    if isinstance(node.value, list):
        return Node(node.line, [_nested(each) for each in node.value])
    if not isinstance(node.value, dict):
        return node
    found: dict[str, Node] = {}
    for name, value in node.value.items():
        first, _, rest = name.partition(".")
        below = _nested(Node(value.line, {rest: value}) if rest else value)
        known = found.get(first)
        if known is not None and isinstance(known.value, dict) and isinstance(below.value, dict):
            below = Node(known.line, {**known.value, **below.value})
        found[first] = below
    return Node(node.line, found)


def _input(node: Node, draft: Draft) -> None:
    kind = node.at("type").text or node.at("input_type").text
    if kind in _FILES:
        _files(node, draft)
    elif kind == "journald":
        draft.set(node.line, "journald", "text")
        for match in (*node.at("include_matches").each(), *node.at("include_matches", "match").each()):
            draft.match_journal(match.line, match.text)
    elif kind in _SYSLOG:
        _syslog(kind, node, draft)
    else:
        draft.remark(node.line, f"input {kind}", "no counterpart")
    _lines_and_labels(node, draft)
    for name, value in node.items():
        if name not in _READ:
            is_of_text = name in {"multiline", "parsers", "json", "processors"}
            draft.remark(value.line, name, RAW if is_of_text else "no counterpart")


def _lines_and_labels(node: Node, draft: Draft) -> None:
    for each in node.at("exclude_lines").each():
        draft.drop(each.line, each.text)
    for each in node.at("include_lines").each():
        draft.keep(each.line, each.text)
    if node.at("exclude_lines") or node.at("include_lines"):
        draft.remark(node.line, "exclude_lines, include_lines", "the patterns apply to every file of the host")
    for name, value in node.at("fields").items():
        if value.text:
            draft.label(value.line, name, value.text)
    if tags := node.at("tags"):
        draft.label(tags.line, "tags", ",".join(each.text for each in tags.each()))


def _files(node: Node, draft: Draft) -> None:
    for each in node.at("paths").each():
        draft.ship(each.line, each.text)
    for place in (node.at("exclude_files"), node.at("prospector", "scanner", "exclude_files")):
        for each in place.each():
            draft.exclude_expression(each.line, each.text)
    if (older := node.at("ignore_older")) and not older.is_off:
        draft.set(older.line, "ignore_older", older.text)
    if node.at("tail_files").is_on:
        draft.set(node.at("tail_files").line, "start_at_end", True)
    if (encoding := node.at("encoding")) and encoding.text.lower() not in {"plain", "utf-8"}:
        draft.set(encoding.line, "charset", encoding.text.lower().removesuffix("-bom").replace("16le", "16-le"))


def _syslog(kind: str, node: Node, draft: Draft) -> None:
    protocols = [name for name, _ in node.at("protocol").items()] if kind == "syslog" else [kind]
    for protocol in protocols:
        place = node.at("protocol", protocol) if kind == "syslog" else node
        where = place.at("host").text or place.at("path").text
        draft.listen(place.line, f"{'unix-stream' if protocol == 'unix' else protocol}:{where}")


def _processor(name: str, value: Node, draft: Draft) -> None:
    expression = value.at("when", "regexp", "message")
    if name == "drop_event" and expression:
        draft.drop(expression.line, expression.text)
    else:
        draft.remark(value.line, f"processors: {name}", RAW)
