"""rsyslog: files that it reads (imfile) and writes (omfile), and syslog that it receives."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from producer.migrate.draft import Draft
from producer.migrate.promtail import ELSEWHERE, RAW

_OBJECT = re.compile(r"\b(module|input|action|global|template|ruleset|include|parser|main_queue)\s*\(", re.IGNORECASE)
_PARAMETER = re.compile(r'([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|(\[[^\]]*\]))')
_LEGACY = re.compile(r"\s*\$(\w+)\s+(.+?)\s*")
_SELECTOR = re.compile(r"\s*([\w,*]+\.[\w!=*,]+(?:;[\w,*]+\.[\w!=*,]+)*)\s+(\S.*?)\s*")
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|/\*.*?\*/|#[^\n]*', re.DOTALL)
_STILL = "rsyslog goes on writing this file, and fshipper ships it"


class _Object(NamedTuple):
    """`input(type="imfile" File="...")`, with its parameters in lower case."""

    kind: str
    line: int
    parameters: dict[str, str]


def convert(text: str, draft: Draft) -> None:
    """Read a configuration."""
    plain = _COMMENT.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)
    for each in _objects(plain):
        _object(each, draft)
    file = ""
    for number, line in enumerate(plain.splitlines(), start=1):
        if found := _LEGACY.fullmatch(line):
            file = _legacy(number, found[1].lower(), found[2], file, draft)
        elif found := _SELECTOR.fullmatch(line):
            _action(number, found[1], found[2], draft)
        elif re.match(r"\s*(if|call|set|foreach|stop)\b", line):
            draft.remark(number, line.strip()[:60], "rules have no counterpart: fshipper ships whole files")


def _objects(text: str) -> Iterator[_Object]:
    for found in _OBJECT.finditer(text):
        end, quoted = found.end(), False
        while end < len(text) and (quoted or text[end] != ")"):
            quoted ^= text[end] == '"' and text[end - 1] != "\\"
            end += 1
        inside = text[found.end() : end]
        values = {name.lower(): plain or listed for name, plain, listed in _PARAMETER.findall(inside)}
        yield _Object(found[1].lower(), text.count("\n", 0, found.start()) + 1, values)


def _object(found: _Object, draft: Draft) -> None:
    kind, line, given = found
    name = (given.get("type") or given.get("load", "")).lower()
    if kind == "input":
        _input(name, line, given, draft)
    elif kind == "module" and name == "imjournal":
        draft.set(line, "journald", "syslog")
    elif kind == "action" and name == "omfile" and "file" in given:
        draft.ship(line, given["file"])
        draft.remark(line, f"omfile {given['file']}", _STILL)
    elif kind == "action":
        draft.remark(line, f"action {name}", ELSEWHERE if name in {"omfwd", "omrelp"} else "no counterpart")
    elif kind == "include":
        draft.remark(line, "include", "name the included files on the command line, too")
    elif kind in {"template", "ruleset", "parser"}:
        draft.remark(line, f"{kind} {given.get('name', '')}".rstrip(), RAW)


def _input(name: str, line: int, given: dict[str, str], draft: Draft) -> None:
    if name == "imfile":
        draft.ship(line, given.get("file", ""))
        if given.get("freshstarttail", "").lower() == "on":
            draft.set(line, "start_at_end", True)
        for setting in sorted(given.keys() & {"startmsg.regex", "endmsg.regex", "readmode", "tag", "ruleset"}):
            draft.remark(line, f"imfile {setting}", RAW)
    elif name in {"imudp", "imtcp", "imptcp"}:
        protocol = "udp" if name == "imudp" else "tcp"
        draft.listen(line, f"{protocol}:{given.get('address', '[::]')}:{given.get('port', '514')}")
        draft.remark(line, name, "two programs cannot listen on one port: stop rsyslog's listener when this starts")
    elif name == "imuxsock":
        draft.listen(line, f"unix:{given.get('socket', '/dev/log')}")
    else:
        draft.remark(line, f"input {name}", "no counterpart")


def _legacy(line: int, name: str, value: str, file: str, draft: Draft) -> str:
    """A directive of the old format; the file of the one before that is not complete."""
    if name == "inputfilename":
        draft.ship(line, value)
        return value
    if name in {"udpserverrun", "inputtcpserverrun"}:
        draft.listen(line, f"{'udp' if name.startswith('udp') else 'tcp'}:[::]:{value}")
    elif name == "includeconfig":
        draft.remark(line, f"$IncludeConfig {value}", "name the included files on the command line, too")
    return file


def _action(line: int, selector: str, action: str, draft: Draft) -> None:
    """What happens to the messages that a selector takes."""
    if action.startswith(("/", "-/")):
        path = action.removeprefix("-").partition(";")[0]
        draft.ship(line, path)
        draft.remark(line, f"{selector} {path}", _STILL)
    elif action.startswith("@"):
        draft.remark(line, f"{selector} {action}", ELSEWHERE)
    elif action != "~" and not action.startswith("action"):
        draft.remark(line, f"{selector} {action}", "no counterpart")
