"""Lists the pages of all commands that are installed."""

from collections.abc import Mapping

from shipper.help.description import Page, describe_group
from shipper.main import GROUP, SUMMARIES, entry_points

SUMMARY = "Ship log files over NATS JetStream: every line once, in order, byte for byte."


def pages() -> Mapping[tuple[str, ...], Page]:
    """Every page, by the words that are typed: `fshipper`, `partition`, `plan`."""
    programs = sorted(entry_points(GROUP), key=lambda entry: entry.name)
    found = {words: page for each in programs for words, page in each.load().pages(each.name).items()}
    verbs = {entry.name for entry in programs} | {"version"}
    commands = {verb: text for verb, text in SUMMARIES.items() if verb in verbs}
    version = describe_group(("fshipper", "version"), SUMMARIES["version"], {})
    return {("fshipper",): describe_group(("fshipper",), SUMMARY, commands), **found, version.words: version}
