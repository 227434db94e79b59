"""Passwords among the arguments of commands whose options have no telling name: `mysql -psecret`."""

import re
from collections.abc import Iterator

from producer.redaction.named_values import Hit, value_at
from producer.redaction.quoting import QUOTE, LineQuotes, Open
from producer.redaction.secret_names import NameTable
from shipper.linear_regex import SHIPPED_MEMORY, Linear

MAX_COMMAND_BYTES = 1024
"""How far after a command's name its options are searched."""

_NEXT = rb"(?:(?:\\*[\"'])?[ \t]*,[ \t]*(?=\\*[\"'])|[ \t=]+|(?=\\*[\"']))"
_ATTACHED = rb"(?=[^\s,\"'\\]|\\*[\"'][^,\s\]])"
_OPTIONS: tuple[tuple[str, bytes], ...] = (
    (r"(?:mysql|mariadb)[a-z-]*", rb"-p" + _ATTACHED),
    (r"sshpass", rb"-p(?:" + _NEXT + rb"|" + _ATTACHED + rb")"),
    (r"mongo[a-z]*|psexec|cqlsh|wmic|xfreerdp|snowsql", rb"[-/]p(?:" + _NEXT + rb"|:)"),
    (r"redis-cli|valkey-cli|keydb-cli", rb"(?:-a|--pass)" + _NEXT),
    (r"ldap(?:search|add|modify|delete|passwd|whoami|compare)", rb"-w" + _NEXT),
    (
        r"(?:docker|podman|helm|skopeo|buildah|nerdctl|oras|crane|az|oc|cf|argocd) [^\n]{0,40}login",
        rb"-p(?:" + _NEXT + rb"|" + _ATTACHED + rb")",
    ),
    (r"plink|pscp|psftp", rb"-pw" + _NEXT),
    (r"unzip|zip|sqlcmd|bcp|mosquitto_[a-z]+|ipmitool|isql|tsql|osql", rb"-P(?:" + _NEXT + rb"|" + _ATTACHED + rb")"),
    (r"7za?|7zr|rar|unrar", rb"-h?p" + _ATTACHED),
    (r"snmp[a-z]+", rb"-[AXc]" + _NEXT),
    (r"influx|arangosh|cassandra-cli", rb"(?:-password|-pw)" + _NEXT),
    (r"curl", rb"(?:-b|--cookie)" + _NEXT + rb"(?=\\*[\"']?[\w.-]+=)"),
    (r"openssl", rb"-[kK]" + _NEXT),
    (r"useradd|usermod", rb"-p" + _NEXT),
    (r"htpasswd", rb"-[a-zA-Z]*b[a-zA-Z]*\s+\S+\s+\S+\s+"),
)
_USER_OPTIONS: tuple[tuple[str, bytes], ...] = (
    (
        r"curl|https?|xh|wget|lftp|ab|hey|aria2c|openstack|snmpget|proxychains|vault|elasticdump",
        rb"(?:-[a-zA-Z]*u|--(?:proxy-)?user|-U|-a|-A|-P|--(?:proxy-)?auth)",
    ),
    (r"smbclient|rpcclient|net|smbget|mount\.cifs|wbinfo|samba-tool", rb"(?:-U|--user|--authentication)"),
)
_USER = re.compile(rb"(?:(?:\\*[\"'])?[ \t]*,[ \t]*|[ \t=]*)(?P<quote>\\*[\"'])?[\w.@+\\-]{0,64}[:%](?=[^\s\"'])")
_IDENTIFIED_BY = re.compile(
    rb"(?i:identified(?:\s+with\s+\S{1,40})?\s+by\s+(?:(?:password|values)\s+)?)(?=\\*['\"])|IDENTIFIED\s+BY\s+"
)
_INSERT = re.compile(
    rb"\b(?i:insert|replace)\s+(?i:(?:ignore\s+)?into)\s+[^\s(]{1,128}\s*\(([^()\n]{1,2048})\)\s*(?i:values?)\s*(?=\()"
)
_SQL_VALUE = re.compile(
    rb"\s*('(?:[^'\\\n]|\\.|'')*'?|\"(?:[^\"\\\n]|\\.)*\"?|(?:[^,()'\"\n]|\([^()\n]*\))+)\s*([,)])?"
)


class Commands:
    """Finds commands, their options, and what these take."""

    def __init__(self, password_rule: str, user_rule: str) -> None:
        self._rules = (password_rule, user_rule)
        self._tables = tuple(
            [(re.compile(command.encode()), re.compile(rb"(?<![\w-])" + option)) for command, option in table]
            for table in (_OPTIONS, _USER_OPTIONS)
        )
        names = "|".join(command for table in (_OPTIONS, _USER_OPTIONS) for command, _ in table)
        self._candidates = Linear(
            rf"\b(?:{names})(?:\.exe)?(?:[\\\"'][,\s]|[ \t])|\|\s*(?:sudo )?chpasswd".encode(),
            max_memory=SHIPPED_MEMORY,
        )

    def find(self, text: bytes) -> Iterator[Hit]:
        """The passwords in `text`."""
        if b"-" not in text and b"chpasswd" not in text:
            return
        quotes = LineQuotes(text)
        for begin, end in self._candidates.finditer(text, 0, len(text)):
            yield from self._of_command(text, begin, end, quotes)

    def _of_command(self, text: bytes, begin: int, end: int, quotes: LineQuotes) -> Iterator[Hit]:
        if text.startswith(b"|", begin):
            yield from self._chpasswd(text, begin)
            return
        line_end = text.find(b"\n", end)
        limit = min(len(text) if line_end < 0 else line_end, end + MAX_COMMAND_BYTES)
        for command, option in self._tables[0]:
            if command.match(text, begin):
                for found in option.finditer(text, end - 1, limit):
                    yield from value_at(text, quotes, found.end(), self._rules[0])
        for command, option in self._tables[1]:
            if command.match(text, begin):
                for found in option.finditer(text, end - 1, limit):
                    user = _USER.match(text, found.end(), limit)
                    if user:
                        yield from _after_user(text, user, quotes, self._rules[1])

    def _chpasswd(self, text: bytes, begin: int) -> Iterator[Hit]:
        line_begin = max(text.rfind(b"\n", 0, begin) + 1, begin - MAX_COMMAND_BYTES)
        found = re.search(rb"(\\*[\"'])?[\w.-]{1,32}:([^\s\"'|][^\n|\"']*?)\\*[\"']?\s*$", text[line_begin:begin])
        if found:
            yield Hit(line_begin + found.start(2), line_begin + found.end(2), self._rules[0])


def _after_user(text: bytes, user: re.Match[bytes], quotes: LineQuotes, rule: str) -> Iterator[Hit]:
    """The password after `user:`; the quote may be before the user."""
    if text.startswith(b"//", user.end()):
        return
    quote = QUOTE.match(user["quote"] or b"")
    yield from value_at(text, quotes, user.end(), rule, Open(len(quote[1]), quote[2]) if quote else None)


def sql_passwords(text: bytes, rule: str) -> Iterator[Hit]:
    """What follows IDENTIFIED BY."""
    if b"DENTIFIED" not in text and b"dentified" not in text:
        return
    quotes = LineQuotes(text)
    for found in _IDENTIFIED_BY.finditer(text):
        yield from value_at(text, quotes, found.end(), rule)


def inserted_passwords(text: bytes, names: NameTable) -> Iterator[Hit]:
    """The values of INSERT in columns that have the name of a secret."""
    if b"INTO" not in text and b"into" not in text:
        return
    for found in _INSERT.finditer(text):
        columns = [names.rule_of(column.strip(b" \t`\"'[]\\")) for column in found[1].split(b",")]
        at = found.end()
        while any(columns) and text.startswith(b"(", at):
            at += 1
            for known in columns:
                value = _SQL_VALUE.match(text, at)
                if value is None:
                    break
                first, last = value.span(1)
                last -= text[first] == text[last - 1]  # the quote at its end
                if known and text[first : first + 1] in (b"'", b'"') and last > first + 1:
                    yield Hit(first + 1, last, known[0].rule)
                at = value.end()
                if value[2] != b",":
                    break
            at += len(text[at : at + 8]) - len(text[at : at + 8].lstrip(b", \t"))
