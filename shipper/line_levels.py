"""Levels of log lines, as data: words, rules for text, and keys of JSON. Pure.

Every pattern has the same meaning in Java and in Python's `re` with `ASCII`: the report evaluates them in Spark, on
lines whose numbers may be masked. A word in prose, in a URL or in the name of a variable is no level.
"""

from collections.abc import Mapping
from dataclasses import dataclass

LEVEL_PREFIX = 120
"""Characters that are searched for a level; 80 are too few for logs of Blue Gene."""

NONE = "none"
"""The level of a line without one."""

WORDS = {
    "info": "info",  # the most common ones first: a map is searched from its beginning
    "error": "error",
    "warn": "warn",
    "warning": "warn",
    "debug": "debug",
    "notice": "notice",
    "fatal": "fatal",
    **dict.fromkeys(("emerg", "emergency", "panic", "alert", "crit", "critical"), "fatal"),
    **dict.fromkeys(("ftl", "pnc", "fata", "pani", "dpanic"), "fatal"),  # of Serilog, zerolog, logrus, zap
    **dict.fromkeys(("severe", "err", "erro", "eror", "fail", "parse", "failure", "crash"), "error"),
    **dict.fromkeys(("wrn", "warnung", "recoverable"), "warn"),
    **dict.fromkeys(("note", "deprecated", "audit"), "notice"),
    **dict.fromkeys(("information", "informational", "inf", "log", "config", "system", "success"), "info"),
    **dict.fromkeys(("dbg", "debg", "debu", "dbug", "fine", "finer"), "debug"),
    **dict.fromkeys(("trace", "trc", "trac", "trce", "verbose", "vrb", "finest", "blat", "silly"), "trace"),
}
"""The level of each word that names one, in small letters."""

LETTERS = {"v": "trace", "d": "debug", "i": "info", "n": "notice", "a": "notice", "w": "warn", "e": "error"}
LETTERS |= {"c": "fatal", "f": "fatal", "t": "trace", **{f"d{number}": "debug" for number in range(1, 6)}}
"""The letters of Android, Kubernetes, MongoDB and WebSphere."""

MARKS = {".": "debug", "-": "info", "*": "notice", "#": "warn"}
"""The marks of Redis."""

SEVERITIES = ("fatal", "fatal", "fatal", "error", "warn", "notice", "info", "debug")
"""The level of each severity of syslog, RFC 5424."""

SAMBA = {"0": "error", "1": "warn", "2": "notice", "3": "info", **dict.fromkeys(map(str, range(4, 11)), "debug")}
"""The level of each debug level of Samba."""

NUMBERS = {
    **{str(number): level for number, level in enumerate(SEVERITIES)},  # GELF, the journal
    "10": "trace",
    "20": "debug",
    "30": "info",
    "40": "warn",
    "50": "error",
    "60": "fatal",  # bunyan and pino
    "100": "debug",
    "200": "info",
    "250": "notice",
    "300": "warn",
    "400": "error",  # Monolog
    **dict.fromkeys(("500", "550", "600"), "fatal"),
}
"""The numeric levels of programs that write JSON."""

OTEL = {str(n): ("trace", "debug", "info", "warn", "error", "fatal")[(n - 1) // 4] for n in range(1, 25)}
"""The severity numbers of OpenTelemetry."""

STATUSES = {"1": "info", "2": "info", "3": "info", "4": "warn", "5": "error"}
"""The level of a line of an access log by the first digit of its status."""

_NAMED = WORDS | LETTERS | NUMBERS
LEVEL_PATHS: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("level", "lvl", "severity", "levelname", "loglevel", "log.level", "@l", "Level"), _NAMED),
    **dict.fromkeys(("LEVEL", "SEVERITY", "level_name", "logLevel", "LogLevel", "log_level", "Severity"), _NAMED),
    **dict.fromkeys(("severityText", "SeverityText", "severity_text", "L", "s", "PRIORITY"), _NAMED),
    **dict.fromkeys(("severityNumber", "SeverityNumber", "severity_number"), OTEL),
    **dict.fromkeys(
        ("fields.level", "metadata.level", "log.severity", "log.lvl", "msg.level", "attributes.level"), _NAMED
    ),
}
"""Keys of the level in JSON lines, and what their values mean; the first that names a level is used."""

TEXT_PATHS = ("log", "message", "msg", "MESSAGE")
"""Keys of the text in JSON lines whose level counts where no key has one: what Docker kept of a line."""

SERILOG_TIME = "@t"
"""A line of Serilog without a level is one of level information."""


# -- text ----------------------------------------------------------------------------------------------------------

_NOT_ALONE = {"fail", "failure", "parse", "crash", "success", "log", "config", "audit", "system", "deprecated"}
_NOT_ALONE |= {"recoverable", "fine", "finer", "finest", "silly", "blat"}
"""Words that are a level in some places only: they are usual names of parts of a program."""
_ALL = "|".join(sorted({*WORDS} - _NOT_ALONE, key=lambda word: (-len(word), word)))
# The common words count in capitals anywhere (ALERT of logrotate is no level). All words count in brackets, after a
# key, and between a time or a tag and a colon, so that words in prose do not count. Windows writes mixed case.
_CAPITALS = "FATAL|CRITICAL|SEVERE|ERROR|WARNING|WARN|NOTICE|INFO|DEBUG|TRACE|Info|Warning|Error"
_AFTER_TIME = (
    "TRC|DBG|INF|WRN|ERR|FTL|PNC|CRIT|ERRO|DEBG|TRAC|BLAT|EMERG|ALERT|PANIC|VERBOSE|EMERGENCY|Note"
    "|CONFIG|FINE|FINER|FINEST"
)
_WITH_COLON = (
    "emergency|emerg|alert|critical|crit|panic|fatal|error|err|warning|warn|notice|information|info|debug|trace"
    "|fail|dbug|trce"
)
_TITLES = "Fatal|Panic|Critical|Emergency|Debug|Notice"

START_PATTERN = (
    r"^(?:"
    rf"(?=(?:{_WITH_COLON})(?: error)?: )"  # .NET, winston
    r"|(?=(?:Critical|Error|Warning|Information|Verbose|Audit)[\t,;])"  # Windows' event log
    r"|(?=(?:FATA|ERRO|EROR|WARN|INFO|DEBU|PANI|TRAC)\[)"  # logrus
    r"|[a-z0-9]{3,8} *:(?=(?:emerg|alert|crit|err|warn|notice|info|debug) *: )"  # dmesg -x
    r"|=(?=(?:ERROR|CRASH|WARNING|INFO) REPORT)"  # Erlang
    rf"|[^\t]{{8,48}}\t(?=(?:{_ALL})\t)"  # zap
    rf"|(?:[^ ]*+(?<!:) ++){{1,9}}?(?:[^ ]++(?<=:) ++){{1,3}}(?=(?:{_WITH_COLON})(?: error)?: )"  # a tag of syslog
    r")([A-Za-z]+)"
)
WORD_PATTERN = (
    r"(?=[A-Z\[a-z])(?:"
    rf"(?<![A-Za-z_/])(?=(?:{_CAPITALS})(?![A-Za-z_=]))"
    rf"|\[(?:[a-z0-9_]{{0,24}}:)?(?=(?i:{_ALL})[0-9]? *\])"
    rf"|(?<=[0-9ZM\]|] )(?=(?:{_AFTER_TIME})[ |])"
    rf"|(?<=[0-9Z\])] )(?=(?:{_WITH_COLON})(?: error)?(?:: |/))"
    rf"|(?<![A-Za-z_/])(?=(?:{_TITLES})(?: error)?:)"
    r"|(?<=/)(?=(?:FATAL|ERROR|WARN|WARNING|INFO|DEBUG|TRACE)\])"  # Minecraft
    r"|(?<= <)(?=(?:Fatal|Critical|Error|Warning|Notice|Information|Debug|Trace)> )"  # ClickHouse
    r"|(?<=[\[ ])(?=(?:VRB|DBG|INF|WRN|ERR|FTL)\])"  # Serilog
    r"|(?<=PHP )(?=(?:Fatal|Parse|Warning|Notice|Deprecated|Recoverable) )"
    r"|(?<=-fs )(?=(?:error|warning) \()|(?<=BTRFS )(?=(?:error|warning|critical|info) \()"  # of the kernel
    r"|(?<=[A-Za-z0-9\]>)] )(?=(?:PANIC|LOG):  )"  # PostgreSQL
    r"|(?<=\.)(?=(?:EMERGENCY|ALERT):)"  # Monolog
    r"|(?<=[0-9] \[)(?=System\] \[MY-)"  # MySQL
    r"|(?<=\t)(?=(?:Information|Verbose|Critical)\t)"
    r")([A-Za-z]+)"
)
KEYED_PATTERN = rf'(?i)(?<![?&])(?:level|lvl|severity|levelname)\\?"?[=:] ?\\?"?({_ALL})(?![a-z0-9_])'
KEYS = ("level", "lvl", "severity", "LEVEL", "SEVERITY", "Level", "Severity")
LETTER_PATTERN = (
    r"^(?:[0-9]+-[0-9]+ [0-9]+:[0-9]+:[0-9]+\.[0-9]+\s+[0-9]+\s+[0-9]+ (?=[VDIWEF] )"  # Android
    r"|(?:[^ ]+ std(?:out|err) [FP] |[^\]]{1,90}+\]: )?(?=[IWEF][0-9]+ [0-9]+:[0-9]+:[0-9]+\.)"  # klog, CRI, syslog
    r"|[0-9]+-[0-9]+-[0-9]+[ T][0-9:.]+Z? (?=[DINWEC](?: \| |! ))"  # etcd before 3.4, Telegraf
    r"|\((?=[NIWC]\) [0-9]+-[0-9]+-)"  # qBittorrent
    r"|[0-9]+-[^ ]+ (?=[FEWID][0-9]? +[A-Z]+ +\[)"  # MongoDB before 4.4
    r"|\[[0-9/, :APM]+[^\]]{0,8}\] [0-9a-f]{1,8} [^ ]+ +(?=[FEWAIC] )"  # WebSphere
    r"|(?=[VDIWEF]/[^ ]+ *\( *[0-9]+\): )"  # Android, brief
    r")([A-Z])"
)
MARK_PATTERN = r"^(?:[0-9]+:[A-Z]|\[[0-9]+\]) [0-9]+ [A-Z][a-z][a-z] (?:[0-9]+ )?[0-9]+:[0-9]+:[0-9]+\.[0-9]+ ([.*#-]) "
PRIORITY_PATTERN = r"^<([0-9]{1,3})>"
CISCO_PATTERN = r"%[A-Z][A-Z0-9_]*(?:-[A-Z][A-Z0-9_]*)*-([0-7])-[A-Z0-9_]+:"
SWITCH_PATTERN = r"%.{1,60}? ?%{0,2}(?:[0-9]{2})?[A-Z][A-Z0-9_]*/([0-7])/[A-Z][A-Z0-9_]*(?:\([a-z]+\))?(?:\[[0-9]+\])?:"
JUL_SECOND_PATTERN = r"^(?:SEVERE|WARNING|INFO|CONFIG|FINE|FINER|FINEST): "
"""The second line of a record of java.util.logging; the first has the time."""
SAMBA_PATTERN = r"^\[[0-9]+/[0-9]+/[0-9]+ [0-9:.]+, {1,2}([0-9]{1,2})[\],]"


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A rule for text: `meaning` has the level of what `pattern` finds, by small letters."""

    name: str
    pattern: str  #: its first group is what it finds
    meaning: Mapping[str, str]
    needs: tuple[str, ...] = ()  #: one of these texts is in each line that fits; empty: not known
    begins: str = ""  #: each line that fits begins with it
    is_number: bool = False  #: it finds nothing where numbers are masked


_PRIORITIES = {str(number): SEVERITIES[number % 8] for number in range(1000)}

RULES = (
    Rule("priority", PRIORITY_PATTERN, _PRIORITIES, begins="<"),
    Rule("keyed", KEYED_PATTERN, WORDS, KEYS),
    Rule("letter", LETTER_PATTERN, LETTERS),
    Rule("mark", MARK_PATTERN, MARKS, (" . ", " * ", " # ", " - ")),
    Rule("cisco", CISCO_PATTERN, dict(zip("01234567", SEVERITIES, strict=True)), ("%",), is_number=True),
    Rule("switch", SWITCH_PATTERN, dict(zip("01234567", SEVERITIES, strict=True)), ("%",), is_number=True),
    Rule("samba", SAMBA_PATTERN, SAMBA, begins="[", is_number=True),
    Rule("start", START_PATTERN, WORDS),
    Rule("word", WORD_PATTERN, WORDS),
)
"""The first that finds a level decides."""
