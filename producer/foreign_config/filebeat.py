"""The configuration of Filebeat: https://www.elastic.co/docs/reference/beats/filebeat/."""

import re
from collections.abc import Iterator

from producer.foreign_config import draft as to
from producer.foreign_config.draft import Draft, Outcome, SectionRules
from producer.foreign_config.sections import Kind, Located, Option, Section, section


def sections(root: Located) -> Iterator[Section]:
    """The sections of Filebeat's configuration."""
    beat = root.at("filebeat")
    for key in ("inputs", "prospectors"):
        for number, each in enumerate(beat.at(key).items()):
            kind = each.at("type").text or each.at("input_type").text or "log"
            name = f"filebeat.{key}[{number}]"
            if each.at("enabled").text == "false":
                yield section(Kind.INPUT, "disabled", name, each)
            else:
                yield section(Kind.INPUT, kind, name, each)
    for name, value in beat.entries().items():
        if name not in {"inputs", "prospectors"}:
            yield section(Kind.PROGRAM, f"filebeat.{name}", f"filebeat.{name}", value)
    for name, value in root.at("output").entries().items():
        yield section(Kind.OUTPUT, name, f"output.{name}", value)
    for number, each in enumerate(root.at("processors").items()):
        yield section(Kind.FILTER, "processors", f"processors[{number}]", each)
    for name, value in root.entries().items():
        if name not in {"filebeat", "output", "processors"}:
            yield section(Kind.PROGRAM, name, name, value)


def _exclude_files(draft: Draft, section: Section, option: Option) -> None:
    """Expressions of paths become globs, where they only name the ending."""
    ending = re.fullmatch(r"\\?\.(\w+)\$", option.text)
    if ending:
        draft.put("exclude", f"/**/*.{ending[1]}", section, option)
    else:
        draft.note(Outcome.MISSING, section, option, "exclude takes globs, as *.gz or /var/log/x/*, not expressions")


def _docker(draft: Draft, section: Section, option: Option) -> None:
    path = section.get("containers.path", "/var/lib/docker/containers")
    ids = "*" if option.text in {"*", ""} else option.text
    draft.put("files", f"{path}/{ids}/*-json.log", section, option)


def _level_zero_is_off(draft: Draft, section: Section, option: Option) -> None:
    if option.text not in {"0", "0s"}:
        to.seconds("ignore_older", unit="s")(draft, section, option)


_COMMON: to.Rules = [
    ("type", to.ignored),
    ("input_type", to.ignored),
    ("enabled", to.ignored),
    ("id", to.ignored),
    ("tags*", to.missing("there are no tags: use a label in [producer.labels]")),
    ("fields.*", to.label),
    ("fields_under_root", to.ignored),
    ("include_lines.*", to.texts("keep_lines")),
    ("exclude_lines.*", to.texts("drop_lines")),
    ("include_lines", to.texts("keep_lines")),
    ("exclude_lines", to.texts("drop_lines")),
    ("processors.*", to.FIELDS),
    ("pipeline", to.FIELDS),
    ("index", to.DESTINATION),
    ("keep_null", to.FIELDS),
]
_FILES: to.Rules = [
    *_COMMON,
    ("paths.*", to.path),
    ("paths", to.path),
    ("exclude_files*", _exclude_files),
    ("prospector.scanner.exclude_files*", _exclude_files),
    ("prospector.scanner.include_files*", to.missing("write these paths into files")),
    (
        "prospector.scanner.symlinks",
        to.missing("links are followed if root or the owner of the file made them; see link_roots"),
    ),
    ("symlinks", to.missing("links are followed if root or the owner of the file made them; see link_roots")),
    ("prospector.*", to.ROTATION),
    ("file_identity*", to.ROTATION),
    ("rotation.*", to.ROTATION),
    ("ignore_older", _level_zero_is_off),
    ("tail_files", to.when_on("start_at_end")),
    ("scan_frequency", to.seconds("poll", unit="s")),
    ("encoding", to.charset),
    ("harvester_limit", to.texts("open_files")),
    ("close_*", to.ROTATION),
    ("close.*", to.ROTATION),
    ("clean_*", to.POSITIONS),
    ("backoff*", to.ROTATION),
    ("multiline*", to.RECORDS),
    ("parsers*", to.RECORDS),
    ("json.*", to.FIELDS),
    ("stream", to.missing("both streams of a container are shipped")),
    ("format", to.FIELDS),
    ("max_bytes", to.missing("long lines are shipped whole")),
    ("message_max_bytes", to.missing("long lines are shipped whole")),
    ("harvester_buffer_size", to.BUFFER),
    ("buffer_size", to.BUFFER),
]
RULES = SectionRules(
    rules={
        **{(Kind.INPUT, kind): _FILES for kind in ("log", "filestream", "container")},
        (Kind.INPUT, "docker"): [("containers.ids.*", _docker), ("containers.*", to.ignored), *_FILES],
        (Kind.INPUT, "journald"): [
            ("include_matches*", to.texts("journald_match")),
            ("type", to.always("journald", "text")),
            ("seek", to.missing("the journal is read from its first entry, or with start_at_end from now")),
            ("units*", to.texts("journald_match", "_SYSTEMD_UNIT={}")),
            ("paths*", to.texts("journald_directory")),
            *_COMMON,
        ],
        (Kind.INPUT, "syslog"): [
            ("protocol.udp.host", to.texts("syslog", "udp:{}")),
            ("protocol.tcp.host", to.texts("syslog", "tcp:{}")),
            ("protocol.unix.path", to.texts("syslog", "unix-stream:{}")),
            *_COMMON,
        ],
        (Kind.INPUT, "stdin"): [("type", to.always("files", "-")), *_COMMON],
        (Kind.INPUT, "disabled"): [("*", to.ignored)],
        (Kind.FILTER, "processors"): [
            ("drop_event.*", to.missing("drop_lines takes expressions of the whole line")),
            ("add_fields.fields.*", to.label),
            ("add_labels.labels.*", to.label),
            ("add_tags.*", to.missing("there are no tags: use a label in [producer.labels]")),
            ("*", to.FIELDS),
        ],
        (Kind.PROGRAM, "name"): [("*", to.texts("host"))],
        (Kind.PROGRAM, "tags"): [("*", to.missing("there are no tags: use a label in [producer.labels]"))],
        (Kind.PROGRAM, "fields"): [("*", to.label)],
        (Kind.PROGRAM, "fields_under_root"): [("*", to.ignored)],
        (Kind.PROGRAM, "logging"): [
            ("level", to.log_level),
            ("*", "the producer logs to standard error: journald keeps it"),
        ],
        (Kind.PROGRAM, "queue"): [("*", to.BUFFER)],
        (Kind.PROGRAM, "path"): [("*", to.POSITIONS)],
        (Kind.PROGRAM, "http"): [("*", "metrics and readiness are on producer.listen, 127.0.0.1:9600")],
        (Kind.PROGRAM, "monitoring"): [("*", "metrics and readiness are on producer.listen, 127.0.0.1:9600")],
        (Kind.PROGRAM, "setup"): [("*", to.FIELDS)],
        (Kind.PROGRAM, "max_procs"): [("*", "a producer uses one core, and a second one while it is free")],
        (Kind.PROGRAM, "filebeat.registry"): [("*", to.POSITIONS)],
        (Kind.PROGRAM, "filebeat.registry_file"): [("*", to.POSITIONS)],
        (Kind.PROGRAM, "filebeat.shutdown_timeout"): [("*", to.seconds("drain_within", unit="s"))],
        (Kind.PROGRAM, "filebeat.config"): [
            ("*", to.missing("run `fshipper migrate` for the files that it loads, too"))
        ],
        (Kind.PROGRAM, "filebeat.modules"): [("*", to.missing("write the paths of the module into files"))],
        (Kind.PROGRAM, "filebeat.autodiscover"): [
            ("*", to.missing("see the kubernetes guide: /var/log/pods/*/*/*.log"))
        ],
    },
    others={
        Kind.OUTPUT: to.DESTINATION,
        Kind.INPUT: "this input has no counterpart",
        Kind.PROGRAM: "this part has no counterpart",
        Kind.FILTER: to.FIELDS,
    },
)
