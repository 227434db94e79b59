"""Which lines are meant by their text: the language of `fshipper search`, and `--grep` of `tail` and `replay`. Pure.

A search has words, phrases and regular expressions, with AND, OR, NOT and parentheses:

    timeout refused             both, anywhere in the line
    timeout OR refused          one of them
    NOT healthcheck, -health    lines without it
    "connection reset"          with its spaces; in it stand backslash-quote and backslash-backslash for themselves
    /HTTP 50[0-3]/, /error/i    a regular expression (RE2); a slash in it is written as backslash-slash
    status:500, level:"x y"     a field of a JSON object or a pair name=value; also the same characters as text
    status:>=500, path:/api/*   a number that is compared; a value with anything in place of the star

A query without a capital letter ignores case (`Case.SMART`). A CR before the newline is part of the line's end.

A query becomes a tree. The tree decides whether a line matches, and lists byte strings that every match contains.
"""

import enum
import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from consumer.read.fields import NAME, Compared, FieldTest, Written, number_of
from consumer.read.piece import Piece
from consumer.read.prefilter import Finder, Literals, NextPosition, candidates, every_line, required_literals
from shipper.bytes_ops import lower_ascii
from shipper.errors import UsageError
from shipper.linear_regex import Linear, PatternError
from shipper.units import printable

MAX_DEPTH = 100
"""Nested parentheses."""
MAX_QUERY_BYTES = 64 * 1024
_REGEX = re.compile(r"/((?:\\.|[^\\/])+)/(i?)(?=[\s()]|$)", re.DOTALL)
"""What begins and ends with a slash; `/var/log` and `a/b` are words."""
_SPECIAL = frozenset(b"\\.^$*+?{}[]|()/-")


# The nodes of the tree: `matches` decides about a line without its newline; `literals` are byte strings of which every
# matching line contains at least one, None: not known.


@dataclass(frozen=True, slots=True)
class _Text:
    """A byte string that the line contains."""

    string: bytes
    ignores_case: bool  #: then `string` is in lower case

    def matches(self, line: bytes) -> bool:
        return self.string in (lower_ascii(line) if self.ignores_case else line)

    @property
    def literals(self) -> Literals | None:
        return Literals(frozenset({self.string}), self.ignores_case)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A regular expression. Takes time linear in the length of the line."""

    regex: Linear
    literals: Literals | None  #: what its alternatives contain
    sees_no_cr: bool  #: it finds the same in a whole buffer, where a CR before the newline belongs to the line

    def matches(self, line: bytes) -> bool:
        return self.regex.search(line, 0, len(line)) is not None


@dataclass(frozen=True, slots=True)
class _Grep:
    """A regular expression of Python, on text: bytes that are not UTF-8 match as surrogates."""

    expression: re.Pattern[str]

    def matches(self, line: bytes) -> bool:
        return self.expression.search(line.decode("utf-8", "surrogateescape")) is not None

    @property
    def literals(self) -> Literals | None:
        found = required_literals(self.expression.pattern, ignores_case=bool(self.expression.flags & re.IGNORECASE))
        return found.with_unicode_twins() if found else None


@dataclass(frozen=True, slots=True)
class _Word:
    """A text with no letter, digit, mark or underscore before and after it, as Unicode has them."""

    inner: _Text | _Pattern
    text: str
    ignores_case: bool

    def matches(self, line: bytes) -> bool:
        if not self.inner.matches(line):
            return False
        decoded = line.decode("utf-8", "surrogateescape")
        flags, length = re.IGNORECASE if self.ignores_case else 0, len(self.text)
        for found in re.finditer(f"(?={re.escape(self.text)})", decoded, flags):  # matches may overlap
            at = found.start()
            if not (_is_of_word(decoded[at - 1 : at]) or _is_of_word(decoded[at + length : at + length + 1])):
                return True
        return False

    @property
    def literals(self) -> Literals | None:
        return self.inner.literals


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a line, or a text: what these characters meant before there were fields keeps its results."""

    field: FieldTest
    needle: bytes  #: of the field's name: lines without it are not parsed
    text: "_Node"

    def matches(self, line: bytes) -> bool:
        searched = lower_ascii(line) if self.field.ignores_case else line
        return self.needle in searched and (self.text.matches(line) or self.field.matches(line))

    @property
    def literals(self) -> Literals | None:
        """Bytes that are in the field and in the text."""
        literal = self.field.literal
        return Literals(frozenset({literal}), self.field.ignores_case) if literal else None


_LATIN_1_LETTERS = "\udcc0"
"""A byte from here on that is no UTF-8 counts as a letter: in Latin-1 and its relatives it is one."""


def _is_of_word(char: str) -> bool:
    """Whether a character is part of a word, which no character at all is not."""
    is_word = char.isalnum() or char == "_" or (char >= _LATIN_1_LETTERS and char <= "\udcff")
    return bool(char) and (is_word or unicodedata.category(char).startswith("M"))


@dataclass(frozen=True, slots=True)
class _And:
    """All of its parts match."""

    parts: tuple["_Node", ...]

    def matches(self, line: bytes) -> bool:
        return all(part.matches(line) for part in self.parts)

    @property
    def literals(self) -> Literals | None:
        """Those of the part that excludes the most lines."""
        found = [each for part in self.parts if (each := part.literals) is not None]
        useful = [each for each in found if each.is_useful] or found
        return max(useful, key=lambda each: each.rank, default=None)


@dataclass(frozen=True, slots=True)
class _Or:
    """One of its parts matches."""

    parts: tuple["_Node", ...]

    def matches(self, line: bytes) -> bool:
        return any(part.matches(line) for part in self.parts)

    @property
    def literals(self) -> Literals | None:
        whole: Literals | None = None
        for part in self.parts:
            found = part.literals
            if found is None:
                return None
            whole = found if whole is None else whole.joined(found)
        return whole


@dataclass(frozen=True, slots=True)
class _Not:
    """Its part does not match."""

    part: "_Node"
    literals: None = None  #: such a line may contain anything

    def matches(self, line: bytes) -> bool:
        return not self.part.matches(line)


_Node = _Text | _Pattern | _Grep | _Word | _Field | _And | _Or | _Not


def _in_some(node: _Node, text: bytes) -> bool:
    """Whether some lines of a text match together."""
    match node:
        case _And():
            return all(_in_some(part, text) for part in node.parts)
        case _Or():
            return any(_in_some(part, text) for part in node.parts)
        case _Not():
            return not _in_some(node.part, text)
        case _Text() if b"\r" not in node.string:  # nor a newline: it is in one line, or in none
            return node.matches(text)
        case _Field() if node.matches(text):  # an object may be written over several lines
            return True
    return any(node.matches(line.removesuffix(b"\r")) for line in text.split(b"\n"))


def _regex_finder(regex: Linear) -> Finder:
    """Finds matches in a whole buffer: a regular expression does not match across lines."""

    def find(text: bytes, _start: int, end: int) -> NextPosition:
        def next_position(at: int) -> int:
            found = regex.search(text, at, end)
            return found[0] if found and found[0] < end else -1

        return next_position

    return find


class Query:
    """A query that was parsed."""

    def __init__(self, tree: _Node, text: str, notes: Iterable[str] = ()) -> None:
        self.text = text
        self.notes = tuple(notes)  #: what the query means, where that may surprise
        self._tree = tree
        self.is_decided = False  #: every candidate line matches, so that none is judged
        self.finder: Finder = every_line
        self.explained = "every line is judged"
        literals = tree.literals
        self.takes_all = isinstance(tree, _And) and not tree.parts
        if self.takes_all:
            self.is_decided, self.explained = True, "every line matches"
        elif literals is not None and literals.is_useful:
            self.finder = literals.find
            self.is_decided = isinstance(tree, _Text)
            shown = " OR ".join(sorted(repr(each.decode("utf-8", "replace")) for each in literals.strings))
            self.explained = f"lines with {shown}{' in any case' if literals.ignores_case else ''} are judged"
        elif isinstance(tree, _Pattern):
            self.finder, self.explained = _regex_finder(tree.regex), "the regular expression searches whole buffers"
            self.is_decided = tree.sees_no_cr

    def matches(self, line: bytes) -> bool:
        """Whether a line without its newline matches. A CR at its end is not part of it."""
        return self._tree.matches(line.removesuffix(b"\r"))

    def take(self, piece: Piece) -> Iterator[Piece]:
        """The lines of a piece that match, neighbours together."""
        start = end = 0
        lines = [(0, len(piece.text))] if self.takes_all else candidates(self.finder, piece.text, 0, len(piece.text))
        for begin, stop in lines:
            if not (self.is_decided or self.matches(piece.text[begin:stop].removesuffix(b"\n"))):
                continue
            if begin > end:
                if start < end:
                    yield piece.part(start, end)
                start = begin
            end = stop
        if start < end:
            yield piece.part(start, end)

    def matches_record(self, text: bytes) -> bool:
        """Whether some lines match together: each part of the query may be in another one of them."""
        return _in_some(self._tree, text.removesuffix(b"\n"))


class Unit(enum.Enum):
    """What matches, is counted and is shown as one."""

    LINE = "line"
    RECORD = "record"  #: a line with a time, and the lines without one after it


class Case(enum.Enum):
    """Whether upper and lower case are the same."""

    SMART = "smart"  #: they are, if the query has no capital letter
    SENSITIVE = "sensitive"
    IGNORED = "ignored"


class Options(NamedTuple):
    """How words and phrases are compared."""

    case: Case = Case.SMART
    whole_words: bool = False

    def ignores_case(self, texts: Iterable[str]) -> bool:
        """Whether case is ignored in a query that has these texts."""
        if self.case is Case.SMART:
            return not any(char.isupper() or char.istitle() for text in texts for char in text)
        return self.case is Case.IGNORED


def parse(text: str, options: Options = Options()) -> Query:  # noqa: B008 - frozen
    """The query that `text` means, every line if it is empty. Raises UsageError with the position of the error."""
    if len(text) > MAX_QUERY_BYTES:
        raise UsageError(f"the query has more than {MAX_QUERY_BYTES} characters", hint="search for a part of it")
    parser = _Parser(text, options)
    return Query(parser.parse(), text, parser.notes)


def parse_fixed(text: str, options: Options = Options()) -> Query:  # noqa: B008 - frozen
    """The query for `text` as it is, without any language."""
    tree = _text(text, ignores_case=options.ignores_case([text]), whole_words=options.whole_words)
    return Query(tree if text else _And(()), text)


def grep(patterns: Sequence[str], *, ignores_case: bool = False, inverted: bool = False) -> Query:
    """The lines that match one of `patterns`, or none of them. No pattern means every line.

    Raises UsageError: one of them is no regular expression.
    """
    text, flags = "|".join(f"(?:{each})" for each in patterns), re.IGNORECASE if ignores_case else 0
    if not patterns:
        return Query(_And(()), text)
    try:
        for each in patterns:
            re.compile(each, flags)
        found = _Grep(re.compile(text, flags))
        return Query(_Not(found) if inverted else found, text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--grep: {error}", hint=r"write \ before a character that stands for itself, as in \( or \["
        ) from None


class _Token(NamedTuple):
    kind: str  #: word, phrase, regex, (, ), OR, AND, NOT, end
    text: str
    at: int
    flags: str = ""
    source: str = ""  #: of a phrase: as it is in the query


class _Parser:
    """Recursive descent: OR binds weakest, then AND, then NOT."""

    def __init__(self, text: str, options: Options) -> None:
        self._text = text
        self._options = options
        self._tokens = deque(self._scan())
        self._ignores_case = options.ignores_case(map(_literal_text, self._tokens))
        self.notes = list(_surprises(text, self._tokens))
        self._depth = 0

    def parse(self) -> _Node:
        if self._tokens[0].kind == "end":
            return _And(())
        tree, left = self._or(), self._tokens[0]
        if left.kind != "end":
            raise self._error(left.at, "this parenthesis closes nothing" if left.kind == ")" else "unexpected")
        return tree

    def _or(self) -> _Node:
        parts = [self._and()]
        while self._tokens[0].kind == "OR":
            self._tokens.popleft()
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else _Or(tuple(parts))

    def _and(self) -> _Node:
        parts = [self._not()]
        while self._tokens[0].kind not in {"OR", ")", "end"}:
            if self._tokens[0].kind == "AND":
                self._tokens.popleft()
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else _And(tuple(parts))

    def _not(self) -> _Node:
        negated = False
        while self._tokens[0].kind == "NOT":
            negated = not negated
            self._tokens.popleft()
        part = self._one()
        return _Not(part) if negated else part

    def _one(self) -> _Node:
        token = self._tokens.popleft()
        match token.kind:
            case "word":
                return self._word(token)
            case "phrase":
                return self._plain(token.text)
            case "regex":
                try:
                    return _pattern(token.text, ignores_case="i" in token.flags or self._ignores_case)
                except PatternError as error:
                    raise self._error(token.at, f"regular expression: {error}") from None
            case "(":
                return self._group(token)
            case "end":
                raise self._error(token.at, "a word is missing at the end")
        raise self._error(token.at, f"a word is missing before {token.text!r}")

    def _plain(self, text: str) -> _Node:
        return _text(text, ignores_case=self._ignores_case, whole_words=self._options.whole_words)

    def _word(self, token: _Token) -> _Node:
        """A word as text, and as a field if it begins with the name of one."""
        text, (name, colon, value) = self._plain(token.text), token.text.partition(":")
        if not (colon and NAME.fullmatch(name)):
            return text
        wanted: Compared | Written | None
        following = self._tokens[0]
        if not value and following.kind == "phrase" and following.at == token.at + len(token.text):
            self._tokens.popleft()
            text = _And((text, self._plain(following.text))) if following.text else _Or(())
            wanted = Written((self._folded(following.text),))
        else:
            wanted = self._value(value, token.at + len(name) + 1) if value else None
        if wanted is None:
            return text
        field = FieldTest(self._folded(name), wanted, self._ignores_case)
        return _Field(field, field.needle, text)

    def _folded(self, text: str) -> str:
        return text.lower() if self._ignores_case else text

    def _value(self, value: str, at: int) -> Compared | Written:
        """The value of a field. Raises UsageError: it is compared with something that is no number."""
        compared = _COMPARED.fullmatch(value)
        if compared is None:
            return Written(tuple(self._folded(value).split("*")))
        bound = number_of(compared[2])
        if bound is None:
            raise self._error(at + len(compared[1]), "no number: only numbers without a unit can be compared")
        return Compared(compared[1], bound)

    def _group(self, opening: _Token) -> _Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(opening.at, "too many nested parentheses")
        inner = self._or()
        if self._tokens[0].kind != ")":
            raise self._error(opening.at, "this parenthesis is not closed")
        self._tokens.popleft()
        self._depth -= 1
        return inner

    def _error(self, at: int, reason: str) -> UsageError:
        return UsageError(
            f"query, character {at + 1}: {reason}\n{_pointed(self._text, at)}",
            hint="quotes, or -F (--fixed-strings), search for the text as it is",
        )

    def _scan(self) -> Iterator[_Token]:
        at, text = 0, self._text
        while at < len(text):
            char = text[at]
            if char.isspace():
                at += 1
            elif char in "()":
                yield _Token(char, char, at)
                at += 1
            elif char == "-" and at + 1 < len(text) and not text[at + 1].isspace():
                yield _Token("NOT", "-", at)
                at += 1
            elif char == '"':
                token, at = self._phrase(at)
                yield token
            elif found := _REGEX.match(text, at):
                yield _Token("regex", found[1].replace("\\/", "/"), at, found[2])
                at = found.end()
            else:
                begin = at
                while at < len(text) and not text[at].isspace() and text[at] not in '()"':
                    at += 1
                word = text[begin:at]
                yield _Token(word if word in {"OR", "AND", "NOT"} else "word", word, begin)
        yield _Token("end", "", len(text))

    def _phrase(self, begin: int) -> tuple[_Token, int]:
        found, at, text = list[str](), begin + 1, self._text
        while at < len(text) and text[at] != '"':
            at += text[at] == "\\" and text[at + 1 : at + 2] in {'"', "\\"}
            found.append(text[at])
            at += 1
        if at >= len(text):
            raise self._error(begin, 'this phrase has no " at its end')
        if not found and text[begin - 1 : begin] != ":":
            raise self._error(begin, "this phrase is empty")
        return _Token("phrase", "".join(found), begin, source=text[begin : at + 1]), at + 1


def _pattern(expression: str, *, ignores_case: bool) -> _Pattern:
    """The regular expression of RE2, on bytes. Raises PatternError: it is none."""
    encoded = expression.encode("utf-8", "surrogateescape")
    regex = Linear(b"(?i)" + encoded if ignores_case else encoded)
    literals = required_literals(expression, ignores_case=ignores_case)
    return _Pattern(regex, literals, bool(_NO_CR.fullmatch(encoded)))


_COMPARED = re.compile(r"([<>]=?)([-+]?\.?[0-9].*)")
"""A value that is compared; `<none>` and `>` are text."""
_NO_CR = re.compile(rb"""(?:[\w @:=,;<>!%&"'~`#/-]|\\[dw./:\-\[\]()?*+|$^{}]|\[[\w.:,/ -]*\]|[|()*+?{},])*""")
"""Expressions that match no CR, nor the place before one: the usual ones."""


def _literal_text(token: "_Token") -> str:
    """The text of a token in which a capital letter counts."""
    if token.kind == "regex":
        return "" if "i" in token.flags else re.sub(r"\\.", "", token.text, flags=re.DOTALL)
    return token.text if token.kind in {"word", "phrase"} else ""


_PATH = re.compile(r"[\w.-]+")
_UNCOLONED = re.compile(rf"({NAME.pattern})([<>]=?)(-?[0-9.]+)")


def _ends_name(word: str) -> bool:
    """Whether a word is the name of a field and its colon."""
    return word.endswith(":") and NAME.fullmatch(word[:-1]) is not None


def _surprises(text: str, tokens: Iterable["_Token"]) -> Iterator[str]:
    """Notes about what the query means, where people expect something else."""
    before: _Token | None = None
    for token in tokens:
        if token.kind == "regex" and not token.flags and _PATH.fullmatch(token.text):
            quoted = f'"/{token.text}/" in quotes searches for the slashes, too'
            yield f"/{token.text}/ is the regular expression {token.text}; {quoted}"
        is_joined = before is not None and before.kind == "word" and text[token.at - 1 : token.at] in {"=", ":"}
        if before is not None and is_joined and token.kind == "phrase" and not _ends_name(before.text):
            both = f"{before.text}{token.source}".replace("\\", "\\\\").replace('"', '\\"')
            yield (
                f"{before.text}{token.source} means two texts, {before.text} and {token.source}, anywhere in the line;"
                f' "{both}" searches for them as one'
            )
        if before is not None and is_joined and token.kind == "(" and _ends_name(before.text):
            name = before.text
            yield f"{name}( ) means the text {name} and the group, anywhere in the line; write ({name}a OR {name}b)"
        if token.kind == "word" and (compared := _UNCOLONED.fullmatch(token.text)):
            name, sign, value = compared.groups()
            yield f"{token.text} is searched for as text; {name}:{sign}{value} compares the field {name}"
        before = token


WINDOW = 60
"""Characters of a query that are shown around an error."""


def _pointed(text: str, at: int) -> str:
    """The query around character `at`, and below it a caret."""
    first = max(0, at - WINDOW // 2)
    shown = printable(text[first : first + WINDOW])
    before = printable(text[first:at])
    width = sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in before)
    return f"  {shown}\n  {' ' * width}^"


def _text(text: str, *, ignores_case: bool, whole_words: bool) -> _Node:
    string = text.encode("utf-8", "surrogateescape")
    if b"\n" in string:
        raise UsageError("a line holds no newline", hint="search for the two lines, one at a time")
    inner: _Text | _Pattern
    if string.isascii() or not ignores_case:
        inner = _Text(string.lower() if ignores_case else string, ignores_case)
    else:
        inner = _pattern("".join(_either_case(char) for char in text), ignores_case=True)
    return _Word(inner, text, ignores_case) if whole_words else inner


def _either_case(char: str) -> str:
    """The encodings of a character in both cases: the engine compares bytes and knows the case of ASCII only."""
    if char.isascii():
        return _quoted(char)
    cases = sorted({each for each in (char, char.lower(), char.upper()) if len(each) == 1})
    return _quoted(char) if len(cases) == 1 else "(?:" + "|".join(map(_quoted, cases)) + ")"


def _quoted(text: str) -> str:
    return "".join(f"\\{char}" if ord(char) in _SPECIAL else char for char in text)
