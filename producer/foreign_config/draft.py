"""What becomes of the sections of another shipper's configuration: settings of a producer, and notes."""

import enum
import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from producer.foreign_config.sections import Kind, Option, Section
from shipper.errors import ConfigError
from shipper.settings import ProducerSettings
from shipper.units import parse_seconds


class Outcome(enum.StrEnum):
    """What becomes of an option."""

    NOT_NEEDED = "not needed"
    REPLACED = "replaced"  #: by something outside of the producer's configuration
    MISSING = "no counterpart"


@dataclass(frozen=True, slots=True)
class Note:
    """An option or a section that became no setting, and why."""

    outcome: Outcome
    place: str  #: as a person finds it: `scrape_configs[0].pipeline_stages.1.regex`
    line: int  #: 0: the format has no lines
    text: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A value of a setting that one section of the other configuration wants."""

    key: str  #: `files`, or `labels.NAME`
    value: Any
    section: Section
    option: Option

    @property
    def line(self) -> int:
        """Where the value comes from."""
        return self.option.line


LOG_LEVEL = "log.level"
LISTS = frozenset({"files", "exclude", "syslog", "journald_match", "keep_lines", "drop_lines", "redact"})
OF_ALL_INPUTS = frozenset(
    {"files", "exclude", "syslog", "journald", "journald_directory", "journald_match", "redact", "poll", "rotate_wait"}
)
"""Settings that concern one kind of input, or do no harm to others."""
OF_FILES = frozenset({"start_at_end", "ignore_older", "charset", "read_order", "open_files"})


@dataclass(slots=True)
class Draft:
    """What the sections want of a producer, and the notes."""

    claims: list[Claim] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def put(self, key: str, value: Any, section: Section, option: Option) -> None:
        """Set `producer.key`, or add to it if it is a list. A value that the setting refuses becomes a note."""
        first, _, label = key.partition(".")
        whole = {label: value} if label else (value,) if key in LISTS else value
        try:
            ProducerSettings.model_validate({first: whole})
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            self.note(Outcome.MISSING, section, option, f"{first} does not accept it: {reason}")
        else:
            self.claims.append(Claim(key, value, section, option))

    def note(self, outcome: Outcome, section: Section, option: Option | None, text: str) -> None:
        """Record what becomes of an option or, without one, of a section."""
        place = ".".join(filter(None, (section.name, option.name if option else "")))
        self.notes.append(Note(outcome, place, option.line if option else section.line, text))

    def settled(self) -> list[Claim]:
        """The claims that hold for the whole producer; each of the others becomes a note.

        A producer has one value of a setting for all of its inputs. What only one input wants is given to none: a
        filter of one file would drop lines of the others.
        """
        inputs = {claim.section.name for claim in self.claims if claim.section.kind is Kind.INPUT}
        files = {claim.section.name for claim in self.claims if claim.key == "files"}
        settled: list[Claim] = []
        for key in dict.fromkeys(claim.key for claim in self.claims):
            claims = [claim for claim in self.claims if claim.key == key]
            needed = files if key in OF_FILES else inputs
            for value in dict.fromkeys(claim.value for claim in claims):
                same = [claim for claim in claims if claim.value == value]
                wanted_by = {claim.section.name for claim in same if claim.section.kind is Kind.INPUT}
                is_general = key in OF_ALL_INPUTS or not wanted_by or wanted_by >= needed
                is_free = key in LISTS or not any(claim.key == key for claim in settled)
                if is_general and is_free:
                    settled.append(same[0])
                    continue
                for claim in same:
                    text = (
                        f"{key} = {value!r} is for one input of several, and a producer has one value for all:"
                        " give these files a producer of their own (--config, --state), or set it for all"
                    )
                    self.note(Outcome.MISSING, claim.section, claim.option, text)
        return settled


Act = Callable[[Draft, Section, Option], None]
Handler = Act | str
"""What is done with an option; a text: it is not needed, and why."""
Rules = Sequence[tuple[str, Handler]]
"""Handlers by patterns of option names; the first that matches counts."""


@dataclass(frozen=True, slots=True)
class SectionRules:
    """How the sections of one shipper are read: rules by kind and type, and what replaces the others."""

    rules: Mapping[tuple[Kind, str], Rules]
    others: Mapping[Kind, str]
    """What a section of an unknown type means for its user."""

    def apply(self, draft: Draft, sections: Sequence[Section]) -> None:
        """Put what the sections contain into `draft`."""
        for each in sections:
            rules = self.rules.get((each.kind, each.type))
            if rules is None:
                outcome = Outcome.REPLACED if each.kind is Kind.OUTPUT else Outcome.MISSING
                draft.note(outcome, each, None, f"{each.type}: {self.others[each.kind]}")
                continue
            for option in each.options:
                _apply(rules, draft, each, option)


def _apply(rules: Rules, draft: Draft, section: Section, option: Option) -> None:
    name = option.name.lower()
    handler = next((handler for pattern, handler in rules if fnmatch.fnmatchcase(name, pattern)), None)
    if handler is None:
        draft.note(Outcome.MISSING, section, option, "this has no counterpart")
    elif isinstance(handler, str):
        draft.note(Outcome.NOT_NEEDED, section, option, handler)
    else:
        handler(draft, section, option)


# -- handlers that several shippers share ------------------------------------------------------------------------------


def ignored(_draft: Draft, _section: Section, _option: Option) -> None:
    """An option that a section's other options have used, or that sets what the default is."""


def texts(key: str, form: str = "{}") -> Act:
    """Set `key` to the text in its `form`, or add it."""

    def handle(draft: Draft, section: Section, option: Option) -> None:
        draft.put(key, form.format(option.text), section, option)

    return handle


def always(key: str, value: Any) -> Act:
    """Set `key` to a value, whatever the option's text is."""

    def handle(draft: Draft, section: Section, option: Option) -> None:
        draft.put(key, value, section, option)

    return handle


def path(draft: Draft, section: Section, option: Option) -> None:
    """Add a file or glob; standard input is `-`."""
    if "{" in option.text and "}" in option.text:
        draft.note(Outcome.MISSING, section, option, "braces are not expanded: write one entry in files for each")
    elif option.text.startswith("/") or option.text == "-":
        draft.put("files", option.text, section, option)
    elif option.text:
        draft.note(Outcome.MISSING, section, option, f"{option.text}: write the path from / on into files")


def excluded(draft: Draft, section: Section, option: Option) -> None:
    """Exclude a glob; one without a directory holds in each."""
    text = option.text
    draft.put("exclude", text if text.startswith("/") else f"/**/{text}", section, option)


def label(draft: Draft, section: Section, option: Option) -> None:
    """Set a label of everything that is shipped; its name is the last part of the option's."""
    if re.search(r"[$%{]", option.text):
        draft.note(Outcome.MISSING, section, option, "labels are fixed texts: write it into [producer.labels]")
    else:
        draft.put(f"labels.{option.name.rpartition('.')[2]}", option.text, section, option)


def seconds(key: str, *, unit: str = "") -> Act:
    """Set a duration; `unit` of numbers without one, as in `Refresh_Interval 60`."""

    def handle(draft: Draft, section: Section, option: Option) -> None:
        text = option.text + (unit if re.fullmatch(r"[0-9.]+", option.text) else "")
        try:
            value = parse_seconds(text)
        except ValueError:
            draft.note(Outcome.MISSING, section, option, f"{option.text!r} is no duration that {key} accepts")
            return
        draft.put(key, value, section, option)

    return handle


def when_on(key: str, value: Any = True) -> Act:
    """Set `key` if the option is switched on."""

    def handle(draft: Draft, section: Section, option: Option) -> None:
        if option.is_on:
            draft.put(key, value, section, option)

    return handle


def replaced(text: str) -> Act:
    """Something outside of the producer's configuration does it."""

    def handle(draft: Draft, section: Section, option: Option) -> None:
        draft.note(Outcome.REPLACED, section, option, text)

    return handle


def missing(text: str) -> Act:
    """There is nothing like it, and what to do."""

    def handle(draft: Draft, section: Section, option: Option) -> None:
        draft.note(Outcome.MISSING, section, option, text)

    return handle


_LEVELS = {"trace": "debug", "warn": "warning", "critical": "error", "off": "error"}


def log_level(draft: Draft, section: Section, option: Option) -> None:
    """Set the level of the producer's own log."""
    level = _LEVELS.get(option.text.lower(), option.text.lower())
    if level in {"debug", "info", "warning", "error"}:
        draft.claims.append(Claim(LOG_LEVEL, level, section, option))
    else:
        draft.note(Outcome.MISSING, section, option, "log.level is debug, info, warning or error")


RECORDS = "lines of a stack trace or statement are joined when they are read, by search, browse and report"
FIELDS = "lines are archived as they are; search, browse and report read time, level and fields from them"
ROTATION = "the producer follows a file through rotation, truncation and removal by its content"
POSITIONS = (
    "the producer keeps offsets in its own state directory; it reads from the first byte unless start_at_end is set"
)
BUFFER = "the file is the buffer until the stream has a line, and the stream until the archive has it"
DESTINATION = "lines go to NATS and from there to the archive: set [nats] url, see below"


def charset(draft: Draft, section: Section, option: Option) -> None:
    """Set the charset of an input, where it is not UTF-8 or one of its subsets."""
    name = option.text.lower().replace("_", "-").removesuffix("-bom")
    name = {"utf-16le": "utf-16-le", "utf-16be": "utf-16-be", "utf16": "utf-16", "utf-16": "utf-16"}.get(name, name)
    if name in {"", "plain", "utf-8", "utf8", "ascii", "us-ascii", "nop"}:
        return
    if not name.startswith("utf-16"):
        draft.note(Outcome.MISSING, section, option, f"{option.text}: bytes are archived as they are, not converted")
        return
    draft.put("charset", name, section, option)


def unreadable(path: str, line: int, what: str) -> ConfigError:
    """An error of the configuration that is read."""
    return ConfigError(f"{path}, line {line}: {what}", hint="correct it, or pass the shipper with --from")
