"""Words that mislead a reader in a hurry, and what to write instead.

`findings` takes any text for people: a document, a docstring, a help text or a message. `python_findings` takes
the source of a module.
`python tests/harness/plain_english.py PATH...` lists the findings of documents, modules and all modules of folders.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

WORDS = (
    (r"behind", "after (time), lags (progress), or the place: over a link, in front of"),
    (r"nobody|somebody|whoever|anybody|everybody", "the person or program: an operator, another user, every client"),
    (r"says?|said|tells?|told|asks?|asked|hears?|heard", "reports, names, requests, prompts, receives, is notified"),
    (r"lies?|lying|lay", "is, is stored in"),
    (r"let go|lets go|put aside|puts aside|(?:is|are) past", "the state: close, rename, closed"),
    (r"looks?|looked|looking", "scan, check, read"),
    (r"dear|dearer|cheap|cheaper|moods?", "the number, or slow, fast, noisy"),
    (r"what (?:it|they) (?:has|have|brings?)", "the noun"),
    (r"houses?|rooms?|hands?|company|companies", "codebase, package, space, manually, group"),
    (r"beside", "next to, during, in parallel with"),
    (r"in pieces|at once|ever less often", "in chunks, immediately, with back-off"),
)
"""Pattern of whole words in any case, and what to write."""
TERMS = re.compile(r"look-(?:ahead|behind)s?", re.IGNORECASE)
"""Terms of the field that contain such a word: of regular expressions."""
FENCED = re.compile(r"^[ ]*```.*?^[ ]*```[ ]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\1(?!`)", re.DOTALL)
TARGET = re.compile(r"\]\([^)\s]*\)|https?://\S+|<[^>\n]*>")
_JOINT = re.compile(r"""["']\s*[rf]?["']""")
"""Between two literals that are one string."""
_QUOTED = re.compile(r'"""(.*?)"""', re.DOTALL)
_FINDERS = tuple((re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE), write) for words, write in WORDS)
_ANY = re.compile("|".join(finder.pattern for finder, _ in _FINDERS), re.IGNORECASE)


class Finding(NamedTuple):
    """One word that misleads."""

    line: int  #: of the text, from 1
    word: str
    write: str  #: what to write instead


def prose(text: str) -> str:
    """`text` with blanks in place of code blocks, code spans, link targets, tags and terms; lines stay lines."""
    for pattern in (FENCED, CODE, TARGET, TERMS):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return text


def findings(text: str) -> list[Finding]:
    """Every word of the list in the prose of `text`, in its order."""
    return sorted(_found(prose(text)))


def _found(text: str) -> Iterator[Finding]:
    for finder, write in _FINDERS:
        for found in finder.finditer(text):
            yield Finding(text.count("\n", 0, found.start()) + 1, found[0], write)


def python_findings(source: str) -> list[Finding]:
    """Every word of the list in the docstrings, comments, help texts and messages of a Python module.

    A message is a string literal of two words or more.
    """
    may_contain = _ANY.search(source) or _ANY.search(_JOINT.sub("", source))  # else it need not be parsed
    return _findings_in(_texts(source)) if may_contain else []


def remark_findings(source: str) -> list[Finding]:
    """As `python_findings`, of docstrings and comments only: the strings of a test are data of its case."""
    return _findings_in([*_docstrings(source), *_comments(source)])


def _findings_in(texts: Iterable[tuple[int, str]]) -> list[Finding]:
    return sorted({each._replace(line=line + each.line - 1) for line, text in texts for each in findings(text)})


def _texts(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 1:
            yield node.lineno, node.value
    yield from _comments(source)


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    if not any(_ANY.search(text) for text in _QUOTED.findall(source)):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield node.body[0].lineno, text


def _comments(source: str) -> Iterator[tuple[int, str]]:
    if not _ANY.search("\n".join(line.partition("#")[2] for line in source.splitlines() if "#" in line)):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("# noqa", "# type:", "# fmt:")):
            yield token.start[0], token.string.partition("# noqa")[0]


def main(arguments: list[str]) -> None:
    """Print the findings of files and folders, and how many each word has."""
    words: Counter[str] = Counter()
    for argument in map(Path, arguments):
        for path in sorted(argument.rglob("*.py")) if argument.is_dir() else [argument]:
            text = path.read_text(encoding="utf-8")
            for each in python_findings(text) if path.suffix == ".py" else findings(text):
                words[each.word.lower()] += 1
                print(f"{path}:{each.line}: {each.word!r}: {each.write}")
    print(f"{words.total()} findings:", ", ".join(f"{word} {number}" for word, number in words.most_common()))


if __name__ == "__main__":
    main(sys.argv[1:])
