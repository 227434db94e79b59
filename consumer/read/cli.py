"""`fshipper tail`, `replay` and `search`: which functions do their work."""

from consumer.read.options import ReplayOptions, SearchOptions, TailOptions
from shipper.commands import Command, program_of

tail_app = program_of(
    {
        "tail": Command(
            TailOptions,
            "consumer.read.tail:tail",
            ("tail -f", "tail web1 --since 10m --grep 'timeout|refused'"),
            usual="follow lines since until file grep raw json archive",
            exits="1 no such host, or something could not be read",
        )
    }
)
replay_app = program_of(
    {
        "replay": Command(
            ReplayOptions,
            "consumer.read.tail:replay",
            (
                "replay web1 --since 09:30 --until 10:00 --speed max",
                "replay web1 --file /var/log/nginx/access.log --to-file access.log --speed max",
            ),
            usual="since until file speed to-file to-subject json archive",
            exits="1 no such host, or something could not be read",
        )
    }
)
search_app = program_of(
    {
        "search": Command(
            SearchOptions,
            "consumer.read.search:run",
            (
                "search error --since 1h",
                "search '\"connection refused\" NOT test' 'web*' --count host",
                "search timeout web1 -C 5 --histogram 10m",
            ),
            usual="since until file count histogram context follow json limit archive",
            exits="0 lines found, 1 none, 3 something could not be read",
        )
    }
)
