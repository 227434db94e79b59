"""JSON values as TOML text: what `export` prints for people to keep in a repository. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_toml(document: Mapping[str, Any]) -> str:
    """`document` as TOML; fields that are None are left out, because TOML has no null."""
    return "\n".join(_table(document, ())).strip("\n") + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if value is not None and not _is_table(value, path)}
    for key, value in plain.items():
        yield f"{_key(key)} = {_inline(value)}"
    for key, value in table.items():
        if key in plain or value is None:
            continue
        inner = (*path, key)
        for each in value if isinstance(value, list) else [value]:
            header = ".".join(map(_key, inner))
            yield ""
            yield f"[[{header}]]" if isinstance(value, list) else f"[{header}]"
            yield from _table(each, inner)


def _is_table(value: Any, path: tuple[str, ...]) -> bool:
    """Whether a value gets a header: top ones, lists of streams and consumers; deeper ones are inline."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(each, Mapping) for each in value) and len(path) < 2  # noqa: PLR2004
    return isinstance(value, Mapping) and not path


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {_inline(each)}" for key, each in value.items() if each is not None)
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(_inline(each) for each in value if each is not None)}]"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    """JSON's escapes are TOML's, but for those of characters beyond 16 bits and of DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
