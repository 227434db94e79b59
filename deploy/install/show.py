"""What would be done, and what was, for people and for scripts."""

import json
from collections.abc import Iterable, Sequence

from deploy.install.plan import Action, Do
from deploy.install.roles import Role

SIGNS = {Do.WRITE: "+", Do.REPLACE: "~", Do.REMOVE: "-", Do.LEAVE: " "}


def as_text(actions: Iterable[Action]) -> list[str]:
    """A line an action."""
    return [f"  {SIGNS[action.do]} {action.do.value:<8}/{action.piece.target}   ({action.why})" for action in actions]


def as_json(
    role: Role, actions: Iterable[Action], *, done: bool, commands: Sequence[str], warnings: Sequence[str]
) -> str:
    """The same for scripts."""
    files = [
        {"path": f"/{action.piece.target}", "do": action.do.value, "kind": action.piece.kind.value, "why": action.why}
        for action in actions
    ]
    shown = {"role": role.value, "done": done, "files": files, "next": list(commands), "warnings": list(warnings)}
    return json.dumps(shown, indent=2)
