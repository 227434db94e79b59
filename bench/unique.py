"""Log lines that no other line equals, of the kinds that programs write. The same seed makes the same text."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from source import Source, repeated

UNIQUE_BYTES = 32_000_000
"""Text after which a file repeats itself: far more than any codec here looks back."""
LINES = 2000  # made at a time
_WORDS = [
    *("accepted", "closed", "request", "served", "upstream", "timeout", "user", "session", "cache", "miss", "retry"),
    *("payment", "order", "queue", "worker", "flush", "index", "shard", "token", "refresh", "started", "finished"),
]
_AGENTS = [f"Mozilla/5.0 ({system}) Gecko/20100101 Firefox/128.0" for system in ("X11; Linux", "Windows", "Mac")]


def _clock(dice: random.Random, number: int) -> str:
    return f"{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.{dice.randrange(10**6):06d}"


def access(dice: random.Random, number: int) -> str:
    """The access log of a web server."""
    address = f"10.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(256)}"
    path = f"/api/v1/{dice.choice(_WORDS)}/{dice.randrange(10**7)}?page={dice.randrange(50)}"
    status = dice.choice((200, 200, 200, 204, 301, 404, 500))
    when = f"20/Nov/2026:{_clock(dice, number)[:8]} +0000"
    return f'{address} - - [{when}] "GET {path} HTTP/1.1" {status} {dice.randrange(10**5)} "-" "{dice.choice(_AGENTS)}"'


def json_lines(dice: random.Random, number: int) -> str:
    """One JSON object a line."""
    return (
        f'{{"ts":"2026-11-20T{_clock(dice, number)}Z","level":"{dice.choice(("info", "info", "warn"))}",'
        f'"service":"{dice.choice(_WORDS)}","trace_id":"{dice.getrandbits(128):032x}","user":{dice.randrange(10**6)},'
        f'"msg":"{" ".join(dice.choices(_WORDS, k=5))}","ms":{dice.random() * 900:.3f}}}'
    )


def key_value(dice: random.Random, number: int) -> str:
    """logfmt."""
    return (
        f"ts=2026-11-20T{_clock(dice, number)}Z level=info caller={dice.choice(_WORDS)}.go:{dice.randrange(900)} "
        f'component={dice.choice(_WORDS)} id={dice.getrandbits(48):012x} msg="{" ".join(dice.choices(_WORDS, k=4))}" '
        f"duration={dice.random() * 90:.4f}s"
    )


def stack_trace(dice: random.Random, number: int) -> str:
    """An exception of Java with its frames."""
    frames = "\n".join(
        f"\tat com.example.{dice.choice(_WORDS)}.{dice.choice(_WORDS).title()}.{dice.choice(_WORDS)}"
        f"({dice.choice(_WORDS).title()}.java:{dice.randrange(2000)})"
        for _ in range(dice.randrange(5, 25))
    )
    return (
        f"2026-11-20 {_clock(dice, number)} ERROR [worker-{dice.randrange(64)}] {dice.choice(_WORDS)} failed\n"
        f"java.lang.IllegalStateException: id {dice.getrandbits(64):016x}\n{frames}"
    )


def near_random(dice: random.Random, number: int) -> str:
    """Hexadecimal digits, as of payloads and hashes."""
    return f"{number} {dice.getrandbits(512):0128x}"


PRESETS: Mapping[str, Callable[[random.Random, int], str]] = {
    "access log": access, "JSON": json_lines, "key-value": key_value, "stack traces": stack_trace,
    "near-random": near_random,
}  # fmt: skip


def make_unique(kind: str, size: int, path: Path) -> Source:
    """A file of at least `size` bytes of one kind, written and synced."""
    dice, number, made = random.Random(kind), 0, 0
    first = path.with_suffix(".first")
    with first.open("w", encoding="ascii") as out:
        while made < min(size, UNIQUE_BYTES):
            made += out.write("\n".join(PRESETS[kind](dice, number + n) for n in range(LINES)) + "\n")
            number += LINES
    source = repeated(Source(first, made, kind), -(-size // made), path)
    first.unlink()
    return source
