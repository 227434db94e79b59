"""`report.json`: the facts under their own names, with the version of the shape in `v`.

`templates/report.schema.json` is that shape as JSON Schema; it is made from `Facts`, so the two cannot differ.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from shipper.errors import Permanent
from spark_analytics.report.model import Facts, Severity, State, word_of_state

VERSION = 2
"""Increased when a name is removed or changes its meaning. New names may be added. 1 had only totals."""

MAX_KEY_HOSTS = 8
_FACTS: TypeAdapter[Facts] = TypeAdapter(Facts)


def as_json(facts: Facts) -> dict[str, Any]:
    """The facts as JSON's own types."""
    return {"v": VERSION, **_FACTS.dump_python(facts, mode="json")}


def to_text(facts: Facts) -> str:
    """The content of `report.json`, in which all characters that are not ASCII are escaped."""
    return json.dumps(as_json(facts), separators=(",", ":"), ensure_ascii=True) + "\n"


def from_text(text: bytes, name: str) -> Facts:
    """Reads the facts of a `report.json`.

    Raises:
        Permanent: the file `name` is of another version, or no report at all.
    """
    try:
        fields = json.loads(text)
        version = fields.pop("v", None)
        if version == VERSION:
            return _FACTS.validate_python(fields)
        wrong = f"is of version {version}, this program reads version {VERSION}"
    except ValidationError as error:
        first = error.errors()[0]
        wrong = f"is damaged at {'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    except (ValueError, AttributeError, TypeError):
        wrong = "is no report"
    raise Permanent(f"{name} {wrong}", hint="make it again with `fshipper report --force`")


def brief(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """A day in one line of the index, from its `report.json`, or None if that has another version."""
    if fields.get("v") != VERSION:
        return None
    totals, verdict = fields["totals"], fields["verdict"]
    found = [_found(one) for one in verdict["findings"] if one["state"] != State.COMPLETE.value]
    return {
        "date": fields["date"],
        "state": verdict["state"],
        "word": word_of_state(verdict["state"], (verdict.get("complete") or {}).get("word"), verdict.get("severity")),
        "severity": verdict.get("severity") or Severity.NOTE.value,
        "headline": verdict["headline"],
        "findings": [one["text"] for one in found],
        "found": found,
        "hosts": totals["hosts"],
        "silent": fields["hosts"]["silent_count"],
        "new_patterns": fields["patterns"]["new_count"],
        "new_bad_patterns": fields["patterns"]["new_bad_count"],
        "errors": totals["errors"],
        "lines": totals["lines"],
        "timezone": fields["run"].get("timezone", "UTC"),
        "bytes": totals["bytes"],
    }


def _found(finding: Mapping[str, Any]) -> dict[str, str]:
    """A finding in the list of days and in the week, also of older reports without severities and sections."""
    return {
        "text": finding["text"],
        "state": finding["state"],
        "severity": finding.get("severity") or Severity.NOTE.value,
        "section": finding.get("section") or "completeness",
        "key": key_of(finding),
    }


_PATTERN_KINDS = {"new_pattern", "surging_pattern", "back_pattern"}
_NAMED_KINDS = {"event", "auth", *_PATTERN_KINDS}
_KINDS_WITHOUT_HOSTS = {"auth", "failed_passwords", *_PATTERN_KINDS}


def key_of(finding: Mapping[str, Any]) -> str:
    """What makes a finding the same on another day: its kind, and its patterns, its event or its hosts.

    The hosts of a pattern, or of an event on many hosts, differ from day to day, and so does the order of patterns.
    """
    kind, names = finding["kind"], sorted(finding.get("names") or ())
    is_anywhere = kind in _KINDS_WITHOUT_HOSTS or (kind == "event" and len(names) == 1)
    hosts = [] if is_anywhere else sorted(finding.get("hosts") or ())
    return " ".join(map(str, (kind, *(names if kind in _NAMED_KINDS else ()), *hosts[:MAX_KEY_HOSTS])))


def schema() -> dict[str, Any]:
    """The shape of `report.json` as JSON Schema (2020-12)."""
    made = _FACTS.json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"fshipper report, version {VERSION}",
        "type": "object",
        "required": ["v", *made["required"]],
        "properties": {"v": {"const": VERSION}, **made["properties"]},
        "$defs": made["$defs"],
    }
