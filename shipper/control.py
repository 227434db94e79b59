"""Control messages (`ctl.up.<host>`, `ctl.down.<host>`): which are read, and to which reply subjects programs answer.

Every host may publish on its own `ctl.up` subject, with any content and any reply subject. nats-server checks the
subject of a message, not the reply subject that it names, so a program that answered to any reply subject would lend
its own rights to whoever asks.
"""

import json
from collections.abc import Mapping
from typing import Any, Never

from shipper.subjects import MOVER, control_down, control_up

MAX_QUESTION_BYTES = 64 * 1024
"""Size of the largest question that is read, in bytes. Ours are smaller: 2000 source ids of 16 digits."""
MAX_MESSAGE_BYTES = 1024 * 1024
"""The same for messages that may hold receipts or marks, of which our programs send 512 KiB at most."""
REPUBLISHED = ("Nats-Stream", "Nats-Subject")
"""Headers that nats-server adds to a stored message when it sends a copy: the answer to a direct get, a republish."""
ASKING_ROLES = ("collector", "partitioner", "reader", "monitor", "operator")
"""Roles of users, as in `_INBOX_<role>.`, whose programs may ask producers."""

_ANY_CLIENT = "_INBOX."
"""The default inbox of every NATS client: where a server has rights for roles, no role listens there."""
_SERVICE_IMPORT = "_R_."
"""What nats-server makes of the reply subject of a question that crosses accounts."""
_GATEWAY, _GATEWAY_TOKENS = "_GR_.", 3
"""What it puts before the reply subject of a question that crosses clusters: `_GR_.<cluster>.<server>.`."""


def is_republished(headers: Mapping[str, str] | None) -> bool:
    """Whether nats-server sent a message as a copy of a stored one, which was published on another subject."""
    return headers is not None and any(name in headers for name in REPUBLISHED)


def may_answer(subject: str, reply: str) -> bool:
    """Whether an answer to a question on the control subject `subject` may be sent to `reply`."""
    while reply.startswith(_GATEWAY):
        reply = reply.split(".", _GATEWAY_TOKENS)[-1] if reply.count(".") >= _GATEWAY_TOKENS else ""
    if reply.startswith((_ANY_CLIENT, _SERVICE_IMPORT)):
        return True
    up, down = control_up(""), control_down("")
    if subject.startswith(up):
        asker = subject.removeprefix(up)
        return reply.startswith(f"_INBOX_{asker}.") or (asker == MOVER and reply.startswith("_INBOX_partitioner."))
    return subject.startswith(down) and any(reply.startswith(f"_INBOX_{role}.") for role in ASKING_ROLES)


def most_bytes(subject: str) -> int:
    """Size of the largest message that is read on `subject`."""
    return MAX_QUESTION_BYTES if subject.startswith(control_up("")) else MAX_MESSAGE_BYTES


def decode(content: bytes) -> Mapping[str, Any] | None:
    """A JSON object from the network; None: it is something else, or nested too deeply, or holds NaN or Infinity."""
    try:
        found = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no_number(text: str) -> Never:
    raise ValueError(f"{text} is not JSON")
