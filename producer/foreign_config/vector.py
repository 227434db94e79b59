"""The configuration of Vector, YAML, TOML or JSON: https://vector.dev/docs/reference/configuration/."""

from collections.abc import Iterator

from producer.foreign_config import draft as to
from producer.foreign_config.draft import Draft, Outcome, SectionRules
from producer.foreign_config.promtail import DOCKER, KUBERNETES
from producer.foreign_config.sections import Kind, Located, Option, Section, section

_KINDS = {"sources": Kind.INPUT, "transforms": Kind.FILTER, "sinks": Kind.OUTPUT}


def sections(root: Located) -> Iterator[Section]:
    """The sections of Vector's configuration."""
    for plural, kind in _KINDS.items():
        for name, each in root.at(plural).entries().items():
            yield section(kind, each.at("type").text, f"{plural}.{name}", each)
    for name, value in root.entries().items():
        if name not in _KINDS:
            yield section(Kind.PROGRAM, name, name, value)


def _from_its_end(draft: Draft, section: Section, option: Option) -> None:
    if option.text == "end":
        draft.put("start_at_end", True, section, option)


def _milliseconds(key: str) -> to.Act:
    return to.seconds(key, unit="ms")


def _syslog(draft: Draft, section: Section, option: Option) -> None:
    mode = section.get("mode", "tcp")
    if mode == "unix":
        draft.put("syslog", f"unix-stream:{section.get('path')}", section, option)
    else:
        draft.put("syslog", f"{mode}:{section.get('address')}", section, option)


def _units(draft: Draft, section: Section, option: Option) -> None:
    unit = option.text if "." in option.text else f"{option.text}.service"
    draft.put("journald_match", f"_SYSTEMD_UNIT={unit}", section, option)


def _matches(draft: Draft, section: Section, option: Option) -> None:
    field = option.name.split(".")[1]
    draft.put("journald_match", f"{field}={option.text}", section, option)


def _remap(draft: Draft, section: Section, option: Option) -> None:
    if "redact" in option.text:
        text = "it is a program in VRL; producer.redact takes expressions, or card, token, email"
        draft.note(Outcome.MISSING, section, option, text)
    else:
        draft.note(Outcome.NOT_NEEDED, section, option, to.FIELDS)


RULES = SectionRules(
    rules={
        (Kind.INPUT, "file"): [
            ("type", to.ignored),
            ("include*", to.path),
            ("exclude*", to.excluded),
            ("read_from", _from_its_end),
            ("start_at_beginning", to.ignored),
            ("ignore_older_secs", to.seconds("ignore_older", unit="s")),
            ("ignore_older", to.seconds("ignore_older", unit="s")),
            ("glob_minimum_cooldown_ms", _milliseconds("poll")),
            ("rotate_wait_secs", to.seconds("rotate_wait", unit="s")),
            ("remove_after_secs", to.missing("delete_archived deletes a file when the archive has all of it")),
            ("encoding.charset", to.charset),
            ("multiline*", to.RECORDS),
            ("message_*", to.RECORDS),
            ("fingerprint*", to.ROTATION),
            ("fingerprinting*", to.ROTATION),
            ("ignore_checkpoints", to.POSITIONS),
            ("ignore_not_found", to.ignored),
            ("oldest_first", to.when_on("read_order", "oldest")),
            ("max_line_bytes", to.missing("long lines are shipped whole")),
            ("line_delimiter", to.missing("lines end with LF, CR LF, CR or NUL")),
            ("max_read_bytes", to.BUFFER),
            ("data_dir", to.POSITIONS),
            ("host_key", "the host is in the subject and in the archive's path"),
            ("file_key", "the name of the file is kept, and search takes it"),
            ("offset_key", "search shows the offset of a line with --json"),
            ("acknowledgements*", "every line is acknowledged by the stream, and by the archive"),
        ],
        (Kind.INPUT, "journald"): [
            ("type", to.always("journald", "text")),
            ("include_units*", _units),
            ("units*", _units),
            ("include_matches.*", _matches),
            ("exclude*", to.missing("journald_match selects what is read")),
            ("journal_directory", to.texts("journald_directory")),
            ("since_now", to.when_on("start_at_end")),
            ("data_dir", to.POSITIONS),
            ("*", to.missing("nothing like it for the journal")),
        ],
        (Kind.INPUT, "syslog"): [
            ("type", _syslog),
            *((name, to.ignored) for name in ("mode", "address", "path")),
            ("tls*", to.missing("syslog over TLS is not received: a relay in front of it can end TLS")),
            ("*", to.missing("nothing like it for syslog")),
        ],
        (Kind.INPUT, "stdin"): [("type", to.always("files", "-")), ("*", to.FIELDS)],
        **{
            (Kind.INPUT, name): [("type", "/metrics of producer.listen has its metrics"), ("*", to.ignored)]
            for name in ("internal_metrics", "host_metrics")
        },
        (Kind.INPUT, "internal_logs"): [
            ("type", "the producer logs to standard error: journald keeps it"),
            ("*", to.ignored),
        ],
        (Kind.INPUT, "docker_logs"): [("type", to.missing(DOCKER)), ("*", to.ignored)],
        (Kind.INPUT, "kubernetes_logs"): [("type", to.missing(KUBERNETES)), ("*", to.ignored)],
        (Kind.FILTER, "remap"): [("source", _remap), ("*", to.ignored)],
        (Kind.FILTER, "filter"): [
            ("condition*", to.missing("drop_lines and keep_lines take expressions of the whole line")),
            ("*", to.ignored),
        ],
        (Kind.FILTER, "throttle"): [
            ("type", to.missing("see producer.rate, bytes per second of all files")),
            ("*", to.ignored),
        ],
        (Kind.FILTER, "sample"): [("type", to.missing("every line is shipped")), ("*", to.ignored)],
        (Kind.FILTER, "dedupe"): [
            ("type", to.missing("every line is shipped once, and equal lines are lines")),
            ("*", to.ignored),
        ],
        (Kind.FILTER, "log_to_metric"): [
            ("type", to.missing("metrics are not made from lines; the report counts them each day")),
            ("*", to.ignored),
        ],
        (Kind.PROGRAM, "data_dir"): [("*", to.POSITIONS)],
        (Kind.PROGRAM, "api"): [("*", "metrics and readiness are on producer.listen, 127.0.0.1:9600")],
        (Kind.PROGRAM, "acknowledgements"): [("*", "every line is acknowledged by the stream, and by the archive")],
        (Kind.PROGRAM, "timezone"): [("*", to.texts("timezone"))],
        (Kind.PROGRAM, "log_schema"): [("*", to.FIELDS)],
    },
    others={
        Kind.OUTPUT: to.DESTINATION,
        Kind.INPUT: "this input has no counterpart",
        Kind.FILTER: "lines are archived as they are; filter when you search",
        Kind.PROGRAM: "this part has no counterpart",
    },
)
