"""The configuration of rsyslog, old directives and RainerScript: https://docs.rsyslog.com/doc/configuration/."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from producer.foreign_config import draft as to
from producer.foreign_config.draft import Draft, Outcome, SectionRules
from producer.foreign_config.sections import Kind, Option, Section
from shipper.errors import ConfigError

MAX_INCLUDES = 200
SHOWN_CHARACTERS = 60
_COMMENT = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|/\*.*?\*/|\#[^\n]*""", re.DOTALL)
_OBJECT = re.compile(
    r"""(?<![\w.])(?P<name>module|input|action|global|main_queue|template|ruleset|parser|timezone|lookup_table|include|property|constant)\s*
        \((?P<options>(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^()"'])*)\)""",
    re.IGNORECASE | re.VERBOSE,
)
_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'([^']*)'|\[([^\]]*)\]|([\w./:*-]+))""")
_SELECTOR = re.compile(r"(?P<selector>(?:[*\w,]+\.[!=]*[*\w]+[;,]?)+)\s+(?P<action>\S.*)")
_PROPERTY = re.compile(r":\w[\w$-]*,\s*!?\w+,\s*\"[^\"]*\"\s+(?P<action>\S.*)")
_LOCAL = frozenset({"imuxsock", "imklog", "imjournal"})
_SERVERS = {"udpserverrun": "imudp", "inputtcpserverrun": "imtcp", "inputptcpserverrun": "imptcp"}


def sections(path: Path, text: str) -> list[Section]:
    """The sections of rsyslog's configuration and of the files that it includes. Raises ConfigError."""
    found = list(_sections(path, text, [path]))
    writes_files = any(each.type == "omfile" and each.get("file").startswith("/") for each in found)
    return [_with_rules(each, writes_files=writes_files) for each in found]


def _with_rules(each: Section, *, writes_files: bool) -> Section:
    """An input as it has to be read with the rules: what they write to files is shipped from there."""
    if each.type in _LOCAL:  # where rsyslog writes no files, the journal has these lines
        type_ = "local" if writes_files else "journal"
        return replace(each, type=type_, options=(Option("", "", each.line),))
    if each.type == "imfile" and writes_files:
        return replace(each, options=(*each.options, Option("copies", "", each.line)))
    return each


def _sections(path: Path, text: str, seen: list[Path]) -> Iterator[Section]:
    said = _COMMENT.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
    for found in _OBJECT.finditer(said):
        line = said.count("\n", 0, found.start()) + 1
        options = tuple(
            Option(
                each[1].lower(),
                next(filter(None, each.groups()[1:]), ""),
                line + found["options"].count("\n", 0, each.start()),
            )
            for each in _OPTION.finditer(found["options"])
        )
        yield from _of_object(path, found["name"].lower(), options, line, seen)
    rest = _OBJECT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), said)
    yield from _of_lines(path, rest.replace("\\\n", "  "), seen)


def _of_object(path: Path, name: str, options: tuple[Option, ...], line: int, seen: list[Path]) -> Iterator[Section]:
    texts = {option.name: option.text for option in options}
    type_ = texts.get("type") or texts.get("load") or name
    match name:
        case "include":
            yield from _included(path, texts.get("file", ""), line, seen)
        case "module" if type_ in _LOCAL:
            yield Section(Kind.INPUT, type_, f"module {type_}", options, line)
        case "module":
            yield Section(Kind.PROGRAM, "module", f"module {type_}", options, line)
        case "input":
            yield Section(Kind.INPUT, type_, f"input {type_}", options, line)
        case "action":
            yield Section(Kind.OUTPUT, type_, f"action {type_}", options, line)
        case _:
            yield Section(Kind.PROGRAM, name, name, options, line)


def _of_lines(path: Path, text: str, seen: list[Path]) -> Iterator[Section]:
    """Old directives and rules: one stands on a line."""
    address = ""
    for line, content in enumerate(text.split("\n"), start=1):
        statement = " ".join(content.strip(" \t{}&").split())
        if directive := re.fullmatch(r"\$(\w+)\s*(.*)", statement):
            name, value = directive[1].lower(), directive[2].strip().strip('"')
            option = (Option(directive[1], value, line),)
            if name == "includeconfig":
                yield from _included(path, value, line, seen)
            elif name in {"udpserveraddress", "inputtcpserveraddress"}:
                address = value
            elif name in _SERVERS:
                server = (
                    Option("port", value, line),
                    *([Option("address", address, line)] if address not in {"", "*"} else []),
                )
                yield Section(Kind.INPUT, _SERVERS[name], f"${directive[1]}", server, line)
            elif name == "inputfilename":
                yield Section(Kind.INPUT, "imfile", f"${directive[1]}", (Option("file", value, line),), line)
            elif name == "modload" and value.removesuffix(".so") in _LOCAL:
                yield Section(Kind.INPUT, value.removesuffix(".so"), f"$ModLoad {value}", (), line)
            else:
                yield Section(Kind.PROGRAM, "directive", "", option, line)
        elif rule := _SELECTOR.fullmatch(statement) or _PROPERTY.fullmatch(statement):
            yield _of_action(rule["action"].strip(), statement, line)
        elif re.match(r"(if|foreach|set|unset|reset|call|stop|:)\b|:", statement):
            yield Section(Kind.FILTER, "script", statement[:SHOWN_CHARACTERS], (), line)


def _of_action(action: str, statement: str, line: int) -> Section:
    target = action.lstrip("-").partition(";")[0].strip()
    name = statement[:SHOWN_CHARACTERS]
    if target.startswith("/"):
        return Section(Kind.OUTPUT, "omfile", name, (Option("file", target, line),), line)
    if target.startswith("?"):
        return Section(Kind.OUTPUT, "omfile", name, (Option("dynafile", target[1:], line),), line)
    if target.startswith("@"):
        return Section(Kind.OUTPUT, "omfwd", name, (), line)
    if target in {"~", "stop"}:
        return Section(Kind.FILTER, "script", name, (), line)
    return Section(Kind.OUTPUT, "other", name, (Option("", target, line),), line)


def _included(path: Path, pattern: str, line: int, seen: list[Path]) -> Iterator[Section]:
    at = Path(pattern)
    names = (
        sorted(at.parent.glob(at.name)) if at.is_absolute() else sorted(path.parent.glob(pattern)) if pattern else []
    )
    for name in names:
        if name in seen or len(seen) > MAX_INCLUDES or not name.is_file():
            continue
        try:
            text = name.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise ConfigError(f"{path}, line {line}: {name}: {error.strerror}") from None
        for each in _sections(name, text, [*seen, name]):
            yield Section(each.kind, each.type, f"{name}: {each.name}", each.options, each.line)


def _syslog(protocol: str) -> to.Act:
    def handle(draft: Draft, section: Section, option: Option) -> None:
        for port in option.text.strip("[]").replace('"', "").split(","):
            draft.put("syslog", f"{protocol}:{section.get('address', '0.0.0.0')}:{port.strip()}", section, option)  # noqa: S104
        text = (
            "a port has one owner: while both run, give the producer another one, and rsyslog a rule that sends to it:"
            f" *.* @{'@' if protocol == 'tcp' else ''}127.0.0.1:PORT"
        )
        draft.note(Outcome.REPLACED, section, option, text)

    return handle


def _written(draft: Draft, section: Section, option: Option) -> None:
    if option.text.startswith("/dev/"):
        draft.note(
            Outcome.MISSING,
            section,
            option,
            "a terminal shows lines no more when rsyslog is gone; see fshipper tail -f",
        )
    else:
        draft.put("files", option.text, section, option)


_TO_FILES = "rsyslog goes on writing these lines to its files, and the producer ships them"
_SERVER: to.Rules = [("type", to.ignored), ("address", to.ignored), ("name", to.ignored)]
_LIMITS = "budgets of hosts are kept by the collector and at the server"
RULES = SectionRules(
    rules={
        (Kind.INPUT, "imfile"): [
            ("file", to.path),
            ("type", to.ignored),
            ("tag", "the name of the file is kept, and search takes it"),
            ("severity", to.FIELDS),
            ("facility", to.FIELDS),
            ("addmetadata", "the name of the file is kept, and search takes it"),
            ("freshstarttail", to.when_on("start_at_end")),
            ("readmode", to.RECORDS),
            ("startmsg.regex", to.RECORDS),
            ("endmsg.regex", to.RECORDS),
            ("escapelf*", to.RECORDS),
            ("statefile", to.POSITIONS),
            ("persiststateinterval", to.POSITIONS),
            ("reopenontruncate", to.ROTATION),
            ("ruleset", to.DESTINATION),
            ("maxlines*", to.BUFFER),
            (
                "copies",
                to.missing("if a rule writes its lines to a file of rsyslog, too, they are shipped twice: remove one"),
            ),
        ],
        (Kind.INPUT, "local"): [("*", _TO_FILES)],
        (Kind.INPUT, "journal"): [("*", to.always("journald", "syslog"))],
        (Kind.INPUT, "imudp"): [
            ("port", _syslog("udp")),
            *_SERVER,
            ("ruleset", to.DESTINATION),
            ("*", to.missing(_LIMITS)),
        ],
        (Kind.INPUT, "imtcp"): [
            ("port", _syslog("tcp")),
            *_SERVER,
            ("ruleset", to.DESTINATION),
            ("*", to.missing("nothing like it for syslog over TCP")),
        ],
        (Kind.INPUT, "imptcp"): [
            ("port", _syslog("tcp")),
            *_SERVER,
            ("ruleset", to.DESTINATION),
            ("*", to.missing("nothing like it for syslog over TCP")),
        ],
        (Kind.OUTPUT, "omfile"): [
            ("file", _written),
            (
                "dynafile",
                to.replaced(
                    "the collector writes a file for each host and log file; collector.output takes a template"
                ),
            ),
            ("*", to.ignored),
        ],
        (Kind.OUTPUT, "other"): [
            ("*", to.missing("lines go to the archive; alerts are made by the report and by metrics"))
        ],
        (Kind.PROGRAM, "module"): [("*", to.ignored)],
        (Kind.PROGRAM, "directive"): [
            ("modload", to.ignored),
            ("workdirectory", to.POSITIONS),
            ("*ratelimit*", to.missing(_LIMITS)),
            ("inputfile*", to.FIELDS),
            ("inputrunfilemonitor", to.ignored),
            ("actionqueue*", to.BUFFER),
            ("actionresume*", to.BUFFER),
            ("mainmsgqueue*", to.BUFFER),
            ("repeatedmsgreduction", to.missing("equal lines are lines: each is shipped")),
            ("defaultnetstream*", to.replaced("TLS to the server is in [nats]: ca, certificate, key")),
            ("actionsendstream*", to.replaced("TLS to the server is in [nats]: ca, certificate, key")),
            ("*template", to.FIELDS),
            ("*", "it is about files and rights of rsyslog itself"),
        ],
        (Kind.PROGRAM, "global"): [
            ("defaultnetstream*", to.replaced("TLS to the server is in [nats]: ca, certificate, key")),
            ("*", "it is about rsyslog itself"),
        ],
        (Kind.PROGRAM, "main_queue"): [("*", to.BUFFER)],
        (Kind.PROGRAM, "template"): [("name", to.FIELDS), ("*", to.ignored)],
        **{
            (Kind.PROGRAM, name): [("*", to.ignored)]
            for name in ("ruleset", "parser", "timezone", "property", "constant")
        },
    },
    others={
        Kind.OUTPUT: to.DESTINATION,
        Kind.INPUT: "this input has no counterpart",
        Kind.FILTER: "all lines are shipped; drop_lines and keep_lines take expressions of the whole line",
        Kind.PROGRAM: "this part has no counterpart",
    },
)
