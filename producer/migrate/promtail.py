"""Promtail: `scrape_configs` with paths, the journal and syslog."""

from producer.migrate.draft import Draft
from producer.migrate.tree import Node

RAW = "the archive has lines as they were written; search and reports find fields, levels and times in them"
DISCOVERY = "discovery has no counterpart: name the files by globs; for Kubernetes see docs/guides/kubernetes.md"
ELSEWHERE = "fshipper sends to NATS (NATS_URL)"
_OF_DISCOVERY = ("kubernetes_sd_configs", "docker_sd_configs", "file_sd_configs", "consul_sd_configs")
_OF_CONFIG = {"job_name", "static_configs", "pipeline_stages", "journal", "syslog", "encoding"}


def convert(root: Node, draft: Draft) -> None:
    """Read a configuration."""
    for client in root.at("clients").each():
        draft.remark(client.line, "clients", ELSEWHERE)
        for name, value in client.at("external_labels").items():
            draft.label(value.line, name, value.text)
    for config in root.at("scrape_configs").each():
        _scrape(config, draft)
    for name, value in root.items():
        if name not in {"clients", "scrape_configs", "server", "positions"}:
            draft.remark(value.line, name, "no counterpart")
    if positions := root.at("positions"):
        draft.remark(
            positions.line, "positions", "fshipper has its own checkpoint, and ships each file from its first byte"
        )


def _scrape(config: Node, draft: Draft) -> None:
    for static in config.at("static_configs").each():
        for name, value in static.at("labels").items():
            _label(name, value, draft)
    _journal(config.at("journal"), draft)
    if syslog := config.at("syslog"):
        protocol = syslog.at("listen_protocol").text or "tcp"
        draft.listen(syslog.line, f"{protocol}:{syslog.at('listen_address').text}")
    if encoding := config.at("encoding"):
        draft.set(encoding.line, "charset", encoding.text.lower())
    for stage in config.at("pipeline_stages").each():
        for name, value in stage.items():
            _stage(name, value, draft)
    for name, value in config.items():
        if name not in _OF_CONFIG:
            draft.remark(value.line, name, DISCOVERY if name in _OF_DISCOVERY else "no counterpart")


def _label(name: str, value: Node, draft: Draft) -> None:
    if name == "__path__":
        draft.ship(value.line, value.text)
    elif name == "__path_exclude__":
        draft.exclude(value.line, value.text)
    elif not name.startswith("__"):
        draft.label(value.line, name, value.text)


def _journal(journal: Node, draft: Draft) -> None:
    if not journal:
        return
    draft.set(journal.line, "journald", "json" if journal.at("json").is_on else "text")
    for match in journal.at("matches").text.split():
        draft.match_journal(journal.line, match)
    if path := journal.at("path"):
        draft.set(path.line, "journald_directory", path.text)


def _stage(name: str, value: Node, draft: Draft) -> None:
    expression = value.at("expression")
    if name == "drop" and expression and not value.at("source"):
        draft.drop(expression.line, expression.text)
        draft.remark(expression.line, "drop", "producer.drop_lines applies to every file of the host")
    elif name == "replace":
        draft.remark(value.line, "replace", "text is replaced by producer.redact: card, token, email or an expression")
    elif name == "multiline":
        draft.remark(value.line, "multiline", "lines stay lines; search shows the lines of a record together")
    else:
        draft.remark(value.line, f"pipeline_stages: {name}", RAW)
