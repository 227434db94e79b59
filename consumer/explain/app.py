"""`fshipper explain`: collects what is known of a file or a line, and shows how far it is."""

import json
import os
import sys

from consumer.explain.evidence import age_of, as_json, collected
from consumer.explain.ladder import Evidence, Explanation, StepMark, explained, moment
from consumer.explain.options import ExplainOptions
from shipper.commands import settings_of
from shipper.errors import EXIT_OK, EXIT_OTHER, Unavailable, UsageError
from shipper.interrupts import interrupt_on_termination
from shipper.nearest import did_you_mean
from shipper.subjects import checked_host
from shipper.table_printer import BAD, CHANGED, GOOD, SAME, Sign, print_signed, standard_output

VERSION = 1
"""Of the JSON; a field is added under the same number, and changed or removed under another."""
SIGNS = {
    StepMark.PASSED: GOOD,
    StepMark.HERE: CHANGED,
    StepMark.STOPPED: BAD,
    StepMark.AHEAD: Sign("-", "dim"),
    StepMark.UNKNOWN: Sign("?", "dim"),
}
WIDTH = 12
"""Columns of the name of a step."""


def run(options: ExplainOptions) -> int:
    """The exit code. Raises UsageError: the path is not whole, or the line is none. Unavailable: no such host."""
    settings = settings_of(options)
    host = checked_host(options.host)
    if not options.path.startswith("/"):
        here = os.path.abspath(options.path)
        raise UsageError(
            f"{options.path!r} is no whole path", hint=f"write it as it is on the host, for example {here}"
        )
    if "\n" in options.line:
        raise UsageError("--line has several lines", hint="give a part of one line")
    interrupt_on_termination()
    known = collected(settings, host, os.path.normpath(options.path), options.line, options.reports)
    if known.reply is None and known.status is None and known.archive is None:
        why = "; ".join(filter(None, (known.no_reply, known.no_archive)))
        meant = did_you_mean(host, known.other_hosts)
        raise Unavailable(
            f"nothing is known of {host}: {why}", hint=f"{meant}fshipper status lists the hosts that are known"
        )
    answer = explained(known)
    if options.as_json:
        sys.stdout.write(json.dumps(_json(known, answer, options.line), indent=1) + "\n")
    else:
        _print(known, answer)
    return EXIT_OK if answer.is_archived else EXIT_OTHER


def _print(known: Evidence, answer: Explanation) -> None:
    console = standard_output()
    for step in answer.steps:
        print_signed(console, SIGNS[step.mark], f"{step.name:<{WIDTH}}{step.text}".rstrip())
    since = f" (since {age_of(answer.since)})" if answer.since else ""
    print_signed(console, GOOD if answer.is_archived else BAD, f"{answer.stage.value}: {answer.sentence}{since}")
    print_signed(console, SAME, f"next: {answer.next_step}")
    if known.no_reply and known.reply is not None:
        print_signed(console, CHANGED, f"by the checkpoint on this host: {known.no_reply}")


def _json(known: Evidence, answer: Explanation, line: str) -> dict[str, object]:
    return {
        "v": VERSION,
        "host": known.host,
        "file": known.file,
        "line": line or None,
        "stage": answer.stage.value,
        "archived": answer.is_archived,
        "sentence": answer.sentence,
        "since": moment(answer.since) if answer.since else None,
        "next": answer.next_step,
        "steps": [{"name": step.name, "state": step.mark.name.lower(), "text": step.text} for step in answer.steps],
        **dict(as_json(known)),
    }
