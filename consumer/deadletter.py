"""A message that nobody can apply: kept whole, with the reason and where it came from."""

from consumer.stage import Dead
from shipper.ports import Inbox
from shipper.subjects import dead_letter_subject

MAX_REASON = 500


async def keep(inbox: Inbox, dead: Dead, *, stream: str) -> None:
    """Copy `dead` to the dead letters and wait until it is stored; a second copy is dropped there."""
    delivery = dead.delivery
    headers = {
        **delivery.headers,
        "Nats-Msg-Id": f"{stream}:{delivery.sequence}:{delivery.time_ns}",
        "Dlq-Reason": dead.reason.replace("\n", " ").encode("ascii", "backslashreplace").decode()[:MAX_REASON],
        "Dlq-Stream": stream,
        "Dlq-Seq": str(delivery.sequence),
        "Dlq-Subject": delivery.subject,
    }
    await inbox.dead_letter(dead_letter_subject(stream, dead.host), headers, delivery.payload)
