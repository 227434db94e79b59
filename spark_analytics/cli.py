"""`fshipper report`: its commands."""

from collections.abc import Mapping

from shipper.commands import Command, program_of
from spark_analytics import options

COMMANDS: Mapping[str, Command] = {
    "patterns": Command(options.PatternsOptions, "spark_analytics.patterns.app:patterns"),
    "prepare": Command(options.PrepareOptions, "spark_analytics.app:prepare"),
    "compact": Command(options.CompactOptions, "spark_analytics.app:compact"),
    "query": Command(options.QueryOptions, "spark_analytics.app:query"),
    "week": Command(options.WeekOptions, "spark_analytics.app:week"),
    "send": Command(options.SendOptions, "spark_analytics.app:send"),
    "show": Command(options.ShowOptions, "spark_analytics.app:show"),
}

app = program_of(
    COMMANDS,
    "Count days of the archive: tables, CSV and a page.",
    first=Command(options.ReportOptions, "spark_analytics.app:report"),
)
