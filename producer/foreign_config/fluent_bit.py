"""The configuration of Fluent Bit, classic and YAML: https://docs.fluentbit.io/manual/administration/configuring-fluent-bit."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from producer.foreign_config import draft as to
from producer.foreign_config.draft import Draft, Outcome, SectionRules
from producer.foreign_config.sections import Kind, Located, Option, Section, section
from shipper.errors import ConfigError

_KINDS = {"input": Kind.INPUT, "filter": Kind.FILTER, "output": Kind.OUTPUT}
MAX_INCLUDES = 100


def classic(path: Path, text: str) -> list[Section]:
    """The sections of the classic format. Raises ConfigError."""
    found: list[tuple[str, int, list[Option]]] = []
    variables: dict[str, str] = {}
    for where, number, line in _lines(path, text, [path]):
        if header := re.fullmatch(r"\[([\w-]+)\].*", line):
            found.append((header[1].lower(), number, []))
        elif given := re.fullmatch(r"@SET\s+(\w+)\s*=\s*(.*)", line, re.IGNORECASE):
            variables[given[1]] = given[2]
        elif found:
            name, _, value = line.partition(" ") if " " in line else line.partition("\t")
            for variable, content in variables.items():
                value = value.replace(f"${{{variable}}}", content)
            found[-1][2].append(Option(name.strip(), value.strip(), number))
        else:
            raise to.unreadable(str(where), number, f"{line[:40]!r} stands before the first [SECTION]")
    counts: dict[str, int] = {}
    return [_classic_section(name, line, options, counts) for name, line, options in found]


def _lines(path: Path, text: str, seen: list[Path]) -> Iterator[tuple[Path, int, str]]:
    """The lines with content, with those of included files. Raises ConfigError."""
    for number, line in enumerate(text.splitlines(), start=1):
        said = line.strip()
        if not said or said.startswith("#"):
            continue
        if included := re.fullmatch(r"@INCLUDE\s+(.+)", said, re.IGNORECASE):
            for name in (
                sorted(path.parent.glob(included[1])) if not included[1].startswith("/") else [Path(included[1])]
            ):
                if name in seen or len(seen) > MAX_INCLUDES:
                    continue
                try:
                    yield from _lines(name, name.read_text(encoding="utf-8", errors="replace"), [*seen, name])
                except OSError as error:
                    raise ConfigError(f"{path}, line {number}: {name}: {error.strerror}") from None
        else:
            yield path, number, said


def _classic_section(name: str, line: int, options: list[Option], counts: dict[str, int]) -> Section:
    kind = _KINDS.get(name, Kind.PROGRAM)
    number = counts[name] = counts.get(name, -1) + 1
    type_ = next((option.text.lower() for option in options if option.name.lower() == "name"), name)
    return Section(
        kind, name if kind is Kind.PROGRAM else type_, f"[{name.upper()}] {number + 1}", tuple(options), line
    )


def sections(root: Located) -> Iterator[Section]:
    """The sections of the YAML format."""
    for plural, kind in {"inputs": Kind.INPUT, "filters": Kind.FILTER, "outputs": Kind.OUTPUT}.items():
        for number, each in enumerate(root.at("pipeline", plural).items()):
            yield section(kind, each.at("name").text.lower(), f"pipeline.{plural}[{number}]", each)
    for name, value in root.entries().items():
        if name != "pipeline":
            yield section(Kind.PROGRAM, name, name, value)


def _each(one: to.Act) -> to.Act:
    """What `one` does, for each of the values between commas."""

    def handle(draft: Draft, section: Section, option: Option) -> None:
        for text in option.text.split(","):
            one(draft, section, replace(option, text=text.strip()))

    return handle


def _from_its_end(draft: Draft, section: Section, option: Option) -> None:
    """Without `Read_from_Head` a file that Fluent Bit has not seen is read from its end."""
    names = {each.name.lower(): each for each in section.options}
    if "read_from_head" not in names or not names["read_from_head"].is_on:
        draft.put("start_at_end", True, section, option)


def _syslog(draft: Draft, section: Section, option: Option) -> None:
    texts = {each.name.lower(): each.text for each in section.options}
    mode = texts.get("mode", "unix_udp").lower()
    if mode.startswith("unix"):
        draft.put(
            "syslog", f"{'unix-stream' if mode == 'unix_tcp' else 'unix'}:{texts.get('path', '')}", section, option
        )
    else:
        address = f"{texts.get('listen', '0.0.0.0')}:{texts.get('port', '5140')}"  # noqa: S104 - Fluent Bit's default
        draft.put("syslog", f"{mode}:{address}", section, option)


def _lines_of(key: str) -> to.Act:
    """A filter `grep`: `FIELD EXPRESSION`. It is ours where it compares the whole line of every input."""

    def handle(draft: Draft, section: Section, option: Option) -> None:
        field, _, expression = option.text.partition(" ")
        texts = {each.name.lower(): each.text for each in section.options}
        if field.lower() not in {"log", "message", "msg"}:
            draft.note(Outcome.MISSING, section, option, f"it compares the field {field}; {key} compares the line")
        elif texts.get("match", "*") != "*" or "logical_op" in texts:
            draft.note(Outcome.MISSING, section, option, f"it holds for a part of the inputs; {key} holds for all")
        else:
            draft.put(key, expression.strip(), section, option)

    return handle


def _record(draft: Draft, section: Section, option: Option) -> None:
    name, _, value = option.text.partition(" ")
    if "hostname" in value.lower():
        draft.note(Outcome.NOT_NEEDED, section, option, "the host is in the subject and in the archive's path")
    else:
        to.label(draft, section, Option(f"{option.name}.{name}", value.strip(), option.line))


_EVERY: to.Rules = [
    ("name", to.ignored),
    ("tag*", "the name of the file is kept, and search takes it"),
    ("alias", to.ignored),
]
_TAIL: to.Rules = [
    ("name", _from_its_end),
    ("path", _each(to.path)),
    ("exclude_path", _each(to.excluded)),
    ("read_from_head", to.ignored),
    ("rotate_wait", to.seconds("rotate_wait", unit="s")),
    ("refresh_interval", to.seconds("poll", unit="s")),
    ("ignore_older", to.seconds("ignore_older", unit="s")),
    ("inotify_watcher", to.ignored),
    ("multiline*", to.RECORDS),
    ("parser*", to.FIELDS),
    ("docker_mode*", to.RECORDS),
    ("path_key", "the name of the file is kept, and search takes it"),
    ("offset_key", "search shows the offset of a line with --json"),
    ("key", to.FIELDS),
    ("db*", to.POSITIONS),
    ("mem_buf_limit", to.BUFFER),
    ("storage.*", to.BUFFER),
    ("buffer_*", to.BUFFER),
    ("static_batch_size", to.BUFFER),
    ("skip_empty_lines", to.missing("empty lines are shipped: every byte is")),
    ("skip_long_lines", to.missing("long lines are shipped whole")),
    ("unicode.encoding", to.charset),
    *_EVERY,
]
_FILTER: to.Rules = [("name", to.ignored), ("match*", to.ignored), ("alias", to.ignored)]
RULES = SectionRules(
    rules={
        (Kind.INPUT, "tail"): _TAIL,
        (Kind.INPUT, "systemd"): [
            ("name", to.always("journald", "text")),
            ("systemd_filter", to.texts("journald_match")),
            ("systemd_filter.*", to.texts("journald_match")),
            ("path", to.texts("journald_directory")),
            ("read_from_tail", to.when_on("start_at_end")),
            ("db*", to.POSITIONS),
            ("*", to.FIELDS),
        ],
        (Kind.INPUT, "syslog"): [
            ("name", _syslog),
            *((name, to.ignored) for name in ("mode", "listen", "port", "path")),
            ("parser", to.FIELDS),
            ("buffer_*", to.BUFFER),
            *_EVERY,
        ],
        (Kind.INPUT, "stdin"): [
            ("name", to.always("files", "-")),
            ("parser", to.FIELDS),
            ("buffer_size", to.BUFFER),
            *_EVERY,
        ],
        (Kind.FILTER, "grep"): [
            ("regex*", _lines_of("keep_lines")),
            ("exclude*", _lines_of("drop_lines")),
            ("logical_op", to.ignored),
            *_FILTER,
        ],
        (Kind.FILTER, "record_modifier"): [("record*", _record), *_FILTER, ("*", to.FIELDS)],
        (Kind.FILTER, "modify"): [("add", _record), ("set", _record), *_FILTER, ("*", to.FIELDS)],
        **{(Kind.FILTER, name): [("*", to.FIELDS)] for name in ("parser", "nest", "kubernetes", "type_converter")},
        (Kind.FILTER, "multiline"): [("*", to.RECORDS)],
        (Kind.FILTER, "throttle"): [
            ("name", to.missing("see producer.rate, bytes per second of all files")),
            ("*", to.ignored),
        ],
        (Kind.PROGRAM, "service"): [
            ("log_level", to.log_level),
            ("http_*", "metrics and readiness are on producer.listen, 127.0.0.1:9600"),
            ("health_check", "metrics and readiness are on producer.listen, 127.0.0.1:9600"),
            ("hc_*", "metrics and readiness are on producer.listen, 127.0.0.1:9600"),
            ("flush", "the producer decides when a block is sent"),
            ("grace", to.seconds("drain_within", unit="s")),
            ("daemon", "systemd starts the producer"),
            ("log_file", "the producer logs to standard error: journald keeps it"),
            ("parsers_file*", to.FIELDS),
            ("storage.*", to.BUFFER),
            ("*", to.missing("nothing like it for the program")),
        ],
        **{
            (Kind.PROGRAM, name): [("*", to.FIELDS)]
            for name in ("parser", "multiline_parser", "parsers", "multiline_parsers")
        },
    },
    others={
        Kind.OUTPUT: to.DESTINATION,
        Kind.INPUT: "this input has no counterpart",
        Kind.FILTER: "lines are archived as they are; filter when you search",
        Kind.PROGRAM: "this part has no counterpart",
    },
)
