"""Vector: sources of files, of the journal and of sockets."""

from producer.migrate.draft import Draft
from producer.migrate.promtail import ELSEWHERE, RAW
from producer.migrate.tree import Node

_READ = {"type", "include", "exclude", "ignore_older_secs", "ignore_older", "read_from", "start_at_beginning"}
_READ |= {"remove_after_secs", "include_units", "include_matches", "mode", "address", "path", "encoding", "data_dir"}
_UNITS = ".service"


def convert(root: Node, draft: Draft) -> None:
    """Read a configuration."""
    for name, source in root.at("sources").items():
        _source(name, source, draft)
    for name, transform in root.at("transforms").items():
        kind = transform.at("type").text
        text = "write its condition into producer.drop_lines or keep_lines" if kind == "filter" else RAW
        draft.remark(transform.line, f"transforms.{name} ({kind})", text)
    for name, sink in root.at("sinks").items():
        draft.remark(sink.line, f"sinks.{name}", ELSEWHERE)
    for name, value in root.items():
        if name not in {"sources", "transforms", "sinks", "data_dir", "api"}:
            draft.remark(value.line, name, "no counterpart")


def _source(name: str, source: Node, draft: Draft) -> None:
    kind = source.at("type").text
    if kind == "file":
        _files(source, draft)
    elif kind == "journald":
        draft.set(source.line, "journald", "text")
        for unit in source.at("include_units").each():
            whole = unit.text if "." in unit.text else unit.text + _UNITS
            draft.match_journal(unit.line, f"_SYSTEMD_UNIT={whole}")
        for field, values in source.at("include_matches").items():
            for value in values.each():
                draft.match_journal(value.line, f"{field}={value.text}")
    elif kind in {"syslog", "socket"}:
        modes = {"unix": "unix-stream", "unix_stream": "unix-stream", "unix_datagram": "unix"}
        mode = source.at("mode").text
        where = source.at("path").text or source.at("address").text
        draft.listen(source.line, f"{modes.get(mode, mode)}:{where}")
    else:
        draft.remark(source.line, f"sources.{name} ({kind})", "no counterpart: name the files in producer.files")
        return
    for setting, value in source.items():
        if setting not in _READ:
            draft.remark(value.line, f"sources.{name}.{setting}", RAW if setting == "multiline" else "no counterpart")


def _files(source: Node, draft: Draft) -> None:
    for each in source.at("include").each():
        draft.ship(each.line, each.text)
    for each in source.at("exclude").each():
        draft.exclude(each.line, each.text)
    for setting in ("ignore_older_secs", "ignore_older"):
        if older := source.at(setting):
            draft.set(older.line, "ignore_older", f"{older.text}s")
    if source.at("read_from").text == "end" or source.at("start_at_beginning").is_off:
        draft.set(source.line, "start_at_end", True)
    if removed := source.at("remove_after_secs"):
        draft.set(removed.line, "delete_archived", f"{removed.text}s")
        draft.remark(removed.line, "remove_after_secs", "producer.delete_archived counts from the time of the archive")
    if charset := source.at("encoding", "charset"):
        draft.set(charset.line, "charset", charset.text.lower().replace("16le", "16-le").replace("16be", "16-be"))
