"""`fshipper dlq ls|show|requeue|drop`: messages that no collector could apply."""

from consumer.dlq.options import DropOptions, ListOptions, RequeueOptions, ShowOptions
from shipper.commands import Command, program_of

COMMANDS = {
    "ls": Command(ListOptions, "consumer.dlq.app:ls"),
    "show": Command(ShowOptions, "consumer.dlq.app:show"),
    "requeue": Command(RequeueOptions, "consumer.dlq.app:requeue"),
    "drop": Command(DropOptions, "consumer.dlq.app:drop"),
}
app = program_of(COMMANDS, "Show, requeue or drop dead letters.")
