"""`fshipper dlq ls|show|requeue|drop`: messages that no collector could apply."""

from consumer.dlq.options import DropOptions, ListOptions, RequeueOptions, ShowOptions
from shipper.commands import Command, program_of

COMMANDS = {
    "ls": Command(ListOptions, "consumer.dlq.app:ls", ("dlq ls", "dlq ls --host web1 --limit 0 --json")),
    "show": Command(ShowOptions, "consumer.dlq.app:show", ("dlq show 17", "dlq show 17 --raw")),
    "requeue": Command(
        RequeueOptions, "consumer.dlq.app:requeue", ("dlq requeue 17 18", "dlq requeue --host web1 --all")
    ),
    "drop": Command(DropOptions, "consumer.dlq.app:drop", ("dlq drop 17", "dlq drop --reason 'no host' --all --yes")),
}
app = program_of(COMMANDS, "Show, requeue or drop dead letters.")
