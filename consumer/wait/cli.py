"""`fshipper wait`: its options. Exit code 0: everything is archived, 1: not within the timeout."""

from consumer.wait.options import WaitOptions
from shipper.commands import Command, program_of

app = program_of(
    {
        "wait": Command(
            WaitOptions,
            "consumer.wait.app:run",
            ("wait", "wait --until 09:30 --host 'web*' --timeout 10m"),
            exits="0 all is there, 1 not within the timeout, 69 no such host or no server",
        )
    }
)
