"""`fshipper explain`: its options. Exit code 0: it is in the archive, 1: it is not, or that is not known."""

from consumer.explain.options import ExplainOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "explain": Command(
            ExplainOptions,
            "consumer.explain.app:run",
            ("explain web1 /var/log/nginx/access.log", "explain web1 /var/log/app.log --line 'order 4711'"),
            exits="0 in the archive, 1 not or not known, 69 nothing is known of the host",
        )
    }
)
