"""`fshipper report`: its commands."""

from collections.abc import Mapping

from shipper.commands import Command, program_of
from spark_analytics import options

COMMANDS: Mapping[str, Command] = {
    "patterns": Command(
        options.PatternsOptions, "spark_analytics.patterns.app:patterns", ("report patterns /var/log/syslog",)
    ),
    "prepare": Command(
        options.PrepareOptions,
        "spark_analytics.app:prepare",
        ("report prepare",),
        exits="69 no Java or no pyspark or no space",
    ),
    "compact": Command(options.CompactOptions, "spark_analytics.app:compact", ("report compact --date yesterday",)),
    "query": Command(
        options.QueryOptions,
        "spark_analytics.app:query",
        (
            "report query 'SELECT host, sum(lines) FROM hourly GROUP BY host' --format csv",
            "report query --since 2026-11-20",
        ),
    ),
    "week": Command(
        options.WeekOptions,
        "spark_analytics.app:week",
        ("report week", "report week --week 2026-W47 --json"),
        exits="64 not a week, 69 no day of it is in the tables",
    ),
    "send": Command(
        options.SendOptions,
        "spark_analytics.app:send",
        ("report send", "report send --date 2026-11-26 --when always"),
        exits="1 a message failed or is in doubt, 69 another process sends, 78 settings or report missing",
    ),
    "show": Command(
        options.ShowOptions, "spark_analytics.app:show", ("report show", "report show --date 2026-11-26 --json")
    ),
}

app = program_of(
    COMMANDS,
    "Count days of the archive: tables, CSV and a page.",
    first=Command(
        options.ReportOptions,
        "spark_analytics.app:report",
        ("report --date yesterday --out /srv/report", "report --since 2026-11-20 --until 2026-11-26"),
        usual="archive out date since until again json wait",
        exits="3 with --fail-on-gaps: bytes are missing or doubled, 4 unchanged, 69 nothing is sealed for these days,"
        " 78 no archive",
    ),
)
