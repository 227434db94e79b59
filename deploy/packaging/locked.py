#!/usr/bin/env python3
"""What an installation needs, of `requirements.lock`: for `pip install --require-hashes`, or as a bill of materials.

    deploy/packaging/locked.py [EXTRA...]            the locked requirements of fshipper with these extras, with hashes
    deploy/packaging/locked.py --only NAME...        those of some packages, for example build tools
    deploy/packaging/locked.py --sbom [EXTRA...]     the same as CycloneDX 1.6 (JSON); without extras: all of the lock

Standard library only: it runs before anything is installed. The output depends on the lock alone.
"""

import hashlib
import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXIT_USAGE = 64
_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?==(?P<version>[^ ;\\]+)\s*(;\s*(?P<marker>[^\\]+?))?\s*\\?$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_ITSELF = "fshipper"


class LockError(Exception):
    """The lock does not hold what is needed; a person has to run `make lock`, or correct the command."""


@dataclass(frozen=True, slots=True)
class Locked:
    """One package of the lock."""

    name: str  #: normalised
    version: str
    marker: str  #: where it is needed only; empty: everywhere
    hashes: tuple[str, ...]  #: SHA-256 of every file of it that may be installed
    via: frozenset[str]  #: the packages that require it
    text: str  #: its lines in the lock


def normalised(name: str) -> str:
    """A package's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def packages(lock: str) -> dict[str, Locked]:
    """What the lock pins, by name. Raises LockError: a package has no hash."""
    found: dict[str, Locked] = {}
    for text in re.split(r"\n(?=[A-Za-z0-9])", lock.strip()):
        first = text.partition("\n")[0]
        pin = _PIN.fullmatch(first)
        hashes = tuple(_HASH.findall(text))
        if pin is None or not hashes:
            raise LockError(f"requirements.lock: {first!r} has no version or no hash; run `make lock`")
        comments = " ".join(line.strip().lstrip("#").strip() for line in text.splitlines() if line.lstrip()[:1] == "#")
        via = frozenset(map(normalised, _NAME.findall(re.sub(r"\(.*?\)|\[.*?\]", "", comments.removeprefix("via")))))
        name = normalised(pin["name"])
        found[name] = Locked(name, pin["version"], (pin["marker"] or "").strip(), hashes, via, text + "\n")
    return found


def roots(project: Mapping[str, Any], extras: Iterable[str]) -> list[str]:
    """The packages that fshipper requires with `extras`. Raises LockError: there is no such extra."""
    optional: Mapping[str, Sequence[str]] = project["optional-dependencies"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        if extra not in optional:
            raise LockError(f"{extra!r} is no extra of fshipper; there are {', '.join(optional)}")
        wanted += optional[extra]
    return [normalised(found[0]) for text in wanted if (found := _NAME.match(text))]


def needed(known: Mapping[str, Locked], names: Iterable[str]) -> list[Locked]:
    """`names` and all that they require, by name. Raises LockError: the lock lacks one."""
    left, taken = list(names), set()
    while left:
        name = left.pop()
        if name not in known:
            raise LockError(f"requirements.lock has no {name}; run `make lock`")
        if name not in taken:
            taken.add(name)
            left += [other.name for other in known.values() if name in other.via]
    return [known[name] for name in sorted(taken)]


def bill(project: Mapping[str, Any], chosen: Sequence[Locked], direct: Iterable[str]) -> dict[str, Any]:
    """The bill of materials: every package with its version, its purl and the hashes of its files."""
    own, asked = f"pkg:pypi/{_ITSELF}@{project['version']}", set(direct)
    requires = {each.name: sorted(_purl(other) for other in chosen if each.name in other.via) for each in chosen}
    components = [
        {
            "type": "library",
            "bom-ref": _purl(each),
            "name": each.name,
            "version": each.version,
            "purl": _purl(each),
            "hashes": [{"alg": "SHA-256", "content": content} for content in each.hashes],
            **({"properties": [{"name": "fshipper:marker", "value": each.marker}]} if each.marker else {}),
        }
        for each in chosen
    ]
    digest = hashlib.sha256(json.dumps(components, sort_keys=True).encode() + own.encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32], version=4)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": _ITSELF,
                "version": project["version"],
                "purl": own,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": own, "dependsOn": sorted(_purl(each) for each in chosen if each.name in asked)},
            *({"ref": _purl(each), "dependsOn": requires[each.name]} for each in chosen),
        ],
    }


def _purl(package: Locked) -> str:
    return f"pkg:pypi/{package.name}@{package.version}"


def main(arguments: Sequence[str]) -> int:
    """Print the requested output; returns the exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    first, rest = (arguments[0], arguments[1:]) if arguments[:1] and arguments[0][:1] == "-" else ("", arguments)
    words = [word for text in rest for word in text.split(",") if word]
    try:
        if first not in {"", "--only", "--sbom"}:
            raise LockError(f"{first} is unknown; there are --only and --sbom")
        known = packages((ROOT / "requirements.lock").read_text(encoding="utf-8"))
        if first == "--only":
            names = list(map(normalised, words))
        else:
            names = roots(project, words or (project["optional-dependencies"] if first == "--sbom" else ()))
        chosen = needed(known, names)
    except LockError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_USAGE
    if first == "--sbom":
        sys.stdout.write(json.dumps(bill(project, chosen, names), indent=2) + "\n")
    else:
        sys.stdout.writelines(each.text for each in chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
