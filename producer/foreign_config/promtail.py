"""The configuration of promtail: https://grafana.com/docs/loki/latest/send-data/promtail/configuration/."""

from collections.abc import Iterator
from dataclasses import replace

from producer.foreign_config import draft as to
from producer.foreign_config.draft import Draft, Outcome, SectionRules
from producer.foreign_config.sections import Kind, Located, Option, Section, section

KUBERNETES = "the kubernetes guide ships /var/log/pods/*/*/*.log of each node, with host, namespace and pod in the name"
DOCKER = "ship /var/lib/docker/containers/*/*-json.log; search reads time and text of these lines"


def sections(root: Located) -> Iterator[Section]:
    """The sections of promtail's configuration."""
    for number, scrape in enumerate(root.at("scrape_configs").items()):
        found = section(Kind.INPUT, "scrape", f"scrape_configs[{number}]", scrape)
        if "journal" in scrape.entries():  # it may have no options
            journal = Option("journal", "", scrape.at("journal").line)
            found = replace(found, options=(journal, *found.options))
        yield found
    for number, client in enumerate([*root.at("clients").items(), *root.at("client").items()]):
        yield section(Kind.OUTPUT, "loki", f"clients[{number}]", client)
    for name, value in root.entries().items():
        if name not in {"scrape_configs", "clients", "client"}:
            yield section(Kind.PROGRAM, name, name, value)


def _drop(draft: Draft, section: Section, option: Option) -> None:
    stage = option.name.rpartition(".")[0]
    limits = [name for name in ("source", "value", "older_than", "longer_than") if section.get(f"{stage}.{name}")]
    if limits:
        text = f"together with {', '.join(limits)} it compares a part of the line; drop_lines compares all of it"
        draft.note(Outcome.MISSING, section, option, text)
    else:
        draft.put("drop_lines", option.text, section, option)


def _replace(draft: Draft, section: Section, option: Option) -> None:
    if section.get(f"{option.name.rpartition('.')[0]}.source"):
        draft.note(Outcome.MISSING, section, option, "it compares a field; redact compares the line")
    else:
        draft.put("redact", option.text, section, option)


def _journal(draft: Draft, section: Section, option: Option) -> None:
    draft.put("journald", "json" if section.get("journal.json") == "true" else "text", section, option)


def _matches(draft: Draft, section: Section, option: Option) -> None:
    for match in option.text.split():
        draft.put("journald_match", match, section, option)


def _syslog(draft: Draft, section: Section, option: Option) -> None:
    protocol = section.get("syslog.listen_protocol", "tcp")
    draft.put("syslog", f"{protocol}:{option.text}", section, option)


STAGES = "pipeline_stages.*"
_SCRAPE: to.Rules = [
    ("static_configs.*.labels.__path__", to.path),
    ("static_configs.*.labels.__path_exclude__", to.excluded),
    ("static_configs.*.labels.host", "the host is in the subject and in the archive's path"),
    ("static_configs.*.labels.hostname", "the host is in the subject and in the archive's path"),
    ("static_configs.*.labels.*", to.label),
    ("static_configs.*.targets*", "it is always this host"),
    ("job_name", "the name of the file is kept, and search takes it"),
    ("journal", _journal),
    ("journal.labels.*", to.label),
    ("journal.path", to.texts("journald_directory")),
    ("journal.matches", _matches),
    ("journal.max_age", to.missing("the journal is read from its first entry, or with start_at_end from now")),
    ("journal.json", to.ignored),
    ("journal.*", to.missing("nothing like it for the journal")),
    ("syslog.listen_address", _syslog),
    ("syslog.labels.*", to.label),
    ("syslog.listen_protocol", to.ignored),
    ("syslog.*", to.missing("nothing like it for syslog")),
    (f"{STAGES}.drop.expression", _drop),
    (f"{STAGES}.drop.*", to.ignored),
    (f"{STAGES}.replace.expression", _replace),
    (f"{STAGES}.replace.*", to.ignored),
    (f"{STAGES}.multiline.*", to.RECORDS),
    (f"{STAGES}.match.*", to.missing("a producer does the same to all lines: filter when you search")),
    (f"{STAGES}.metrics.*", to.missing("metrics are not made from lines; the report counts them each day")),
    (f"{STAGES}.static_labels.*", to.label),
    (f"{STAGES}.limit.*", to.missing("see producer.rate, bytes per second of all files")),
    (f"{STAGES}.sampling.*", to.missing("every line is shipped")),
    (f"{STAGES}.tenant.*", to.missing("hosts and accounts separate tenants: see the guide on security")),
    (f"{STAGES}.*", to.FIELDS),
    ("relabel_configs.*", to.FIELDS),
    ("encoding", to.charset),
    ("decompression.*", "compressed files are decompressed while they are read"),
    ("docker_sd_configs.*", to.missing(DOCKER)),
    ("kubernetes_sd_configs.*", to.missing(KUBERNETES)),
    ("*", to.missing("this input has no counterpart")),
]
RULES = SectionRules(
    rules={
        (Kind.INPUT, "scrape"): _SCRAPE,
        (Kind.PROGRAM, "positions"): [("*", to.POSITIONS)],
        (Kind.PROGRAM, "server"): [
            ("log_level", to.log_level),
            ("disable", to.missing('listen = "" switches the endpoint off')),
            ("*", "metrics and readiness are on producer.listen, 127.0.0.1:9600"),
        ],
        (Kind.PROGRAM, "target_config"): [("*", "files are found by notifications and by scans every producer.poll")],
        (Kind.PROGRAM, "limits_config"): [("*", to.missing("see producer.rate, bytes per second of all files"))],
        (Kind.PROGRAM, "tracing"): [("*", "there are no traces")],
        (Kind.PROGRAM, "global"): [("*", "files are found by notifications and by scans every producer.poll")],
    },
    others={Kind.OUTPUT: to.DESTINATION, Kind.PROGRAM: "this part has no counterpart"},
)
