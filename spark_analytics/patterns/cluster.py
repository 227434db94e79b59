"""Clusters distinct masked texts into patterns, in the driver: deterministic, bounded, with stable ids.

1. `tokenize` splits a masked text into a template: tokens, with parameters found by their shape.
2. `Matcher` assigns templates to known patterns, most specific first. Known patterns never change, nor do their ids.
3. `generalize_templates` finds more parameters in the others: tokens that differ between otherwise equal templates.
   Each step works on a set of templates, so their order does not matter.

Each masked text is processed once, so there may be many rules; each runs in linear time.
"""

import functools
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Template = tuple[str, ...]
"""The tokens of a template; a parameter is a token that holds `WILD`."""


# -- tokens: parameters, names that may be parameters, and words -------------------------------------------------------

ANNOUNCING = frozenset({
    "user", "users", "username", "login", "account", "group", "host", "hostname", "domain", "class", "package",
    "module", "driver", "device", "service", "interface", "tenant", "project", "namespace", "topic", "queue",
    "table", "database", "bucket", "volume", "unit", "job",
})  # fmt: skip
"""Words that are followed by a name."""

_NAME = re.compile(r"[A-Za-z_][\w-]*(?:[._/@\\$]+[\w-]+)+\Z", re.ASCII)
_SHOUTED = re.compile(r"[A-Z_-]+\Z")
_WORD = re.compile(r"[a-z]{2,}\Z")
_EDGES = "\"'`.,:;!?()[]{}<>"


@functools.lru_cache(maxsize=65_536)
def core(token: str) -> str:
    """`token` without the punctuation around it."""
    return token.strip(_EDGES)


@functools.lru_cache(maxsize=65_536)
def is_name(token: str) -> bool:
    """Whether it has the form of a name: parts joined by dots, slashes or underscores, not in capitals."""
    inner = core(token)
    return _NAME.match(inner) is not None and _SHOUTED.match(inner) is None


def may_vary(template: Template, at: int) -> bool:
    """Whether the token at `at` may be a parameter: a name, or a token after one of `ANNOUNCING`."""
    token = template[at]
    if WILD in token:
        return False
    if is_name(token):
        return True
    return at > 0 and template[at - 1].lower() in ANNOUNCING and core(token) not in ("", "is", "was", "has", "not")


def words(template: Template) -> int:
    """Number of its tokens with letters that are neither a parameter nor a name."""
    return sum(1 for token in template if WILD not in token and not is_name(token) and any(map(str.isalpha, token)))


def generalized(token: str) -> str:
    """`token` with `WILD` in place of its core."""
    inner = core(token)
    return token.replace(inner, WILD, 1) if inner else WILD


def fits(wild: str, token: str) -> bool:
    """Whether `wild`, which contains `WILD`, matches `token`."""
    before, _, after = wild.partition(WILD)
    suffix = after.rpartition(WILD)[2]
    return len(token) > len(before) + len(suffix) and token.startswith(before) and token.endswith(suffix)


# -- patterns ----------------------------------------------------------------------------------------------------------

WILD = "<*>"
"""Stands for a parameter in a template."""

MAX_DISTINCT = 200_000
"""Maximum number of distinct masked texts that are clustered; others, with fewer lines, get the pattern `REST`."""


class Pattern(NamedTuple):
    """A template and its id: 16 hex digits, from the first time it was seen."""

    id: str
    template: str


def pattern_of(template: str) -> Pattern:
    """A new pattern of `template`; its id is a hash of the text, so it is the same on all machines."""
    return Pattern(hashlib.blake2b(template.encode("utf-8", "replace"), digest_size=8).hexdigest(), template)


REST = pattern_of(WILD)
"""The pattern of lines without one of their own: empty, or beyond `MAX_DISTINCT`."""


MIN_WORDS = 2
"""Minimum words of a template that can match other templates."""

MAX_STEPS = 2_000
"""Maximum comparisons of tokens for one template, which then counts as unknown: hostile templates may be numerous."""


@dataclass(slots=True)
class _Node:
    next: dict[str, "_Node"] = field(default_factory=dict)
    wild: dict[str, "_Node"] = field(default_factory=dict)
    pattern: Pattern | None = None


class Matcher:
    """Finds the pattern of a template among `patterns`."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.by_template: dict[Template, Pattern] = {}  #: all patterns, each once
        self._roots: dict[int, _Node] = {}
        for pattern in sorted(patterns, key=lambda pattern: (pattern.template, pattern.id)):
            template = tuple(pattern.template.split(" "))
            if template not in self.by_template:
                self.by_template[template] = pattern
                if WILD in pattern.template and words(template) >= MIN_WORDS:
                    node = self._roots.setdefault(len(template), _Node())
                    for token in template:
                        node = (node.wild if WILD in token else node.next).setdefault(token, _Node())
                    node.pattern = pattern

    def match(self, template: Template) -> Pattern | None:
        """The pattern whose template is `template`, else the most specific one that matches it, else None."""
        if exact := self.by_template.get(template):
            return exact
        root = self._roots.get(len(template))
        pending = [] if root is None else [(root, 0)]
        for _ in range(MAX_STEPS):
            if not pending:
                break
            node, at = pending.pop()
            if at == len(template):
                return node.pattern
            token = template[at]
            pending.extend((then, at + 1) for wild, then in reversed(node.wild.items()) if fits(wild, token))
            if token in node.next:
                pending.append((node.next[token], at + 1))
            elif token in node.wild:
                pending.append((node.wild[token], at + 1))
        return None


MIN_DISTINCT_NAMES = 3
"""Number of different names at one position that make it a parameter."""

MIN_DISTINCT_WORDS = 5
"""Number of different plain words at one position that make it a parameter."""

MIN_DISTINCT_AFTER_ONE = 10
"""The same for a plain word that ends a template with one other word."""

MIN_CONTEXT = 2
"""Minimum number of equal words of templates whose names are compared."""

MIN_CONTEXT_OF_WORDS = 3
"""Minimum number of equal words of templates whose plain words are compared."""

MIN_CONTEXT_OF_MIXED = 6
"""Minimum number of equal words of templates that have names at a position where others have any other token."""

MAX_TOKENS_COMPARED = 24
"""Maximum number of tokens of a template that are compared with those of others."""


def generalize_templates(templates: Iterable[Template]) -> dict[Template, Template]:
    """The generalized template of each of `templates`."""
    became = {template: template for template in templates}
    for step in (_names, _generalized_by_others, _varied_words, _varied_with_names, _generalized_by_others):
        changed = step(set(became.values()))
        became = {template: changed.get(now, now) for template, now in became.items()}
    return became


def _names(templates: set[Template]) -> dict[Template, Template]:
    """Generalizes names at a position where otherwise equal templates have `MIN_DISTINCT_NAMES` different ones."""
    alike = defaultdict(list)
    for template in templates:
        places = tuple(at for at in range(len(template)) if may_vary(template, at))
        if places and words(_without(template, places)) >= MIN_CONTEXT:
            alike[places, _without(template, places)].append(template)
    return {template: became for (places, _), group in alike.items() for template, became in _varied(group, places)}


def _without(template: Template, places: tuple[int, ...]) -> Template:
    out = set(places)
    return tuple(token for at, token in enumerate(template) if at not in out)


def _varied(group: list[Template], places: tuple[int, ...]) -> Iterator[tuple[Template, Template]]:
    """Splits `group` by positions with too few names until all other positions have enough."""
    pending = [group]
    while pending:
        alike = pending.pop()
        counts = {at: len({template[at] for template in alike}) for at in places}
        too_few = [at for at in places if 1 < counts[at] < MIN_DISTINCT_NAMES]
        if too_few:
            parts = defaultdict(list)
            for template in alike:
                parts[template[too_few[0]]].append(template)
            pending.extend(parts.values())
            continue
        enough = {at for at in places if counts[at] >= MIN_DISTINCT_NAMES}
        if enough:
            yield from ((template, _with_wild(template, enough)) for template in alike)


def _with_wild(template: Template, places: set[int]) -> Template:
    return tuple(generalized(token) if at in places else token for at, token in enumerate(template))


def _generalized_by_others(templates: set[Template]) -> dict[Template, Template]:
    """Generalizes a token that is a parameter in an otherwise equal template."""
    changed: dict[Template, Template] = {}
    for alike in _by_length(templates):
        wild: dict[int, str] = {}
        for template in alike:
            for at in _places(template):
                if WILD in template[at] and words(template) >= MIN_CONTEXT:
                    key = _key(template, at)
                    wild[key] = min(wild.get(key, template[at]), template[at], key=lambda token: (len(token), token))
        for template in alike:
            if (became := _with_parameters_of(template, wild)) != template:
                changed[template] = became
    return changed


def _with_parameters_of(template: Template, wild: dict[int, str]) -> Template:
    for at in _places(template):
        token = template[at]
        taken = wild.get(_key(template, at), token)
        may = (at or WILD in token or is_name(token)) and words(_without(template, (at,))) >= MIN_CONTEXT
        if may and taken != token and fits(taken, token):
            template = (*template[:at], taken, *template[at + 1 :])
    return template


def _varied_words(templates: set[Template]) -> dict[Template, Template]:
    """Generalizes words at a position where otherwise equal templates have `MIN_DISTINCT_WORDS` different ones."""
    changed: dict[Template, Template] = {}
    for alike in _by_length(templates):
        at_place: dict[int, list[Template]] = defaultdict(list)
        for template in alike:
            if words(template) > MIN_CONTEXT_OF_WORDS or len(template) == words(template) == MIN_WORDS:
                for at in _places(template):
                    if at and _WORD.match(core(template[at])):
                        at_place[_key(template, at)].append(template)
        best: dict[Template, tuple[int, int]] = {}
        for group in at_place.values():
            if len(group) >= (MIN_DISTINCT_AFTER_ONE if len(group[0]) == MIN_WORDS else MIN_DISTINCT_WORDS):
                at = _differing(group)
                for template in group:
                    best[template] = max(best.get(template, (0, 0)), (len(group), -at))
        changed.update((template, _with_wild(template, {-at})) for template, (_, at) in best.items())
    return changed


def _varied_with_names(templates: set[Template]) -> dict[Template, Template]:
    """Generalizes any tokens at a position with `MIN_DISTINCT_WORDS` different ones if some of them are names.

    `hive: SYSTEM` is a state only as long as no `hive: ntuser.dat` is in otherwise equal templates.
    """
    changed: dict[Template, Template] = {}
    for alike in _by_length({template for template in templates if words(template) > MIN_CONTEXT_OF_MIXED}):
        at_place: dict[int, list[Template]] = defaultdict(list)
        for template in alike:
            for at in _places(template):
                if at and WILD not in template[at]:
                    at_place[_key(template, at)].append(template)
        for group in at_place.values():
            if len(group) >= MIN_DISTINCT_WORDS:
                at = _differing(group)
                if any(is_name(template[at]) for template in group):
                    changed.update((template, _with_wild(template, {at})) for template in sorted(group))
    return changed


def _differing(group: list[Template]) -> int:
    return next(at for at, (one, other) in enumerate(zip(group[0], group[1], strict=True)) if one != other)


def _by_length(templates: set[Template]) -> Iterable[list[Template]]:
    lengths = defaultdict(list)
    for template in templates:
        lengths[len(template)].append(template)
    return lengths.values()


def _places(template: Template) -> range:
    return range(min(len(template), MAX_TOKENS_COMPARED))


def _key(template: Template, at: int) -> int:
    """Equal for templates that differ only at `at`: a hash, because 200,000 templates have twenty each."""
    return hash((at, template[:at], template[at + 1 :]))


MAX_TOKENS = 64
"""Maximum number of tokens of a template; later ones are dropped."""

_W = re.escape(WILD)
_BRACES = 4
"""Levels of nested braces that count as one value."""

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_TLD = r"(?:com|org|net|edu|gov|mil|int|info|biz|io|local|localdomain|internal|lan|arpa|[a-z]{2})"
_UNIT = r"(?:(?:[kKMGTP]i?)?[bB]|[mun]?s|secs?|msecs?|[kKMG]?Hz|%)"

_IN_PATH = r"[^\s\"'<>(){}\[\],;|=?]"
_IN_WORD = r"[\w.@$*#%~/\\?!&+^`-]"

_QUEUE_ID = r"(?:[A-F]{5,}|[B-DF-HJ-NP-TV-Zb-df-hj-np-tv-z]{10,})"

_SHAPES = (
    # Dates in words, with or without the time, the zone and the year that belong to them.
    (rf"\b{_WEEKDAY},? +{_MONTH} +0(?: 0(?::0)*(?:\.0)?)?(?: [A-Z]{{3,4}})?(?: 0)?(?![\w.])", WILD),
    (rf"\b(?:{_MONTH} +0|0 {_MONTH})(?:,? 0(?::0)*)?(?![\w.])", WILD),
    # Addresses of things: URLs, paths, hosts, e-mail.
    (r"(?<![\w+.-])[A-Za-z][\w+.-]{0,64}://(?:[^\s\"'<>(){}\[\],;|]*[^\s\"'<>(){}\[\],;|:.])?", WILD),
    (r"(?:(?<![^\s\"'=:,\[({<])[A-Za-z]:)?\\(?:[^\s\\\"'<>(){}\[\],;|=]+\\)+[^\s\"'<>(){}\[\],;|=]*", WILD),
    (rf"(?<![^\s\"'=:,\[({{<@])(?:~|\.{{1,2}})?/(?:{_IN_PATH}*(?![:.]){_IN_PATH})?(?:\?[^\s\"'<>]*)?", WILD),
    (r"(?<![^\s\"'=,\[({<])[\w.+-]+(?:/[\w.+$-]+){2,}/?", WILD),
    (rf"(?<![\w.@/$-])(?:[\w.+-]{{1,64}}@)?(?:[a-z_][a-z_-]*\.)+{_TLD}(?![\w.$-]*[\w$-])", WILD),
    (r"(?<![\w:])(?=[A-Fa-f:]*0)(?:[0-9A-Fa-f]{0,4}:){3,}[0-9A-Fa-f]{0,4}(?:%\w+)?(?![\w:])", WILD),
    (r"(?<![\w.@/$-])[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+:0(?![\w.])", WILD),
    # Numbers in a word: hexadecimal digits without one, then every word with one.
    (r"(?<![\w.])(?:[a-f]{8,}|[A-F]{8,}|f{4,})(?![\w.])", "0"),
    # Queue ids of Postfix without a digit, short (hexadecimal) and long ones (without vowels).
    (rf"(?:^|(?<=warning: )|(?<=queued as )){_QUEUE_ID}(?=: |\)|$)", "0"),
    (rf"<?(?<![\w.+-])[+-]?0(?:\.0)? ?{_UNIT}(?![\w/-]|\.\w)", WILD),
    (rf"(?<!{_IN_WORD})(?:(?!0){_IN_WORD})*0{_IN_WORD}*", WILD),
    # Values after an equals sign, booleans, lines of asterisks.
    (r"(?<==)( ?)\"[^\"]{0,200}\"", rf"\1{WILD}"),
    (r"(?<==)( ?)(?:[A-Za-z_$.-][\w.$@/+-]*\*?)(?![\w.$@/+-]|\s?=)", rf"\1{WILD}"),
    (r"(?<![\w.$-])(?:true|false|null|TRUE|FALSE|NULL|nil|None|True|False)(?![\w.$-])", WILD),
    (r"(?<![^\s\"'=:,;(\[{])[*#=_~.-]{4,}(?![^\s\"'=:,;)\]}])", WILD),
    # Quoted words; sentences in quotes are taken as they are.
    (r"\"[^\s\"]{1,200}\"(?!\s?:)", f'"{WILD}"'),
    (r"(?<![A-Za-z])'[^\s']{1,200}'(?![A-Za-z])", f"'{WILD}'"),
)
_RULES = tuple((re.compile(pattern, re.ASCII), text) for pattern, text in _SHAPES)

_LABELLED = re.compile(rf"(?<![^\s:,])(?:{_W}|[\w.:/-]{{1,64}}) \([a-zA-Z][\w. ]{{0,40}}\)(?=,|$)", re.ASCII)
_MIN_LABELLED = 3
"""Values with their names in parentheses, `0 (sid), LOOKING (state)`, from which a text is a list of such values."""

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufffd]+")
_BRACED = re.compile(r"\{[^{}]*\}")
_MEMBER = re.compile(r"(?<=\"):\s?(?:\"[^\"]*\"?|[^\s,{}\[\]\"][^,{}\[\]\"]*)")
_LOGFMT = re.compile(r"(?:[\w.-]+=(?:\"[^\"]*\"|[^\s\"]*) )*(?:msg|message)=\"([^\"]*)", re.ASCII)
_RUN = re.compile(rf"{_W}(?:[ \t]?[,;:/@.+*|#&?-]?[ \t]?{_W})+")
_OPTIONAL = re.compile(rf" \((?:{_W}|,| )*\)")
_BRACKETED = re.compile(rf"{_W}(?:\({_W}\)|\[{_W}\]|\{{{_W}\}})")


def tokenize(masked: str) -> Template:
    """The tokens of `masked`, with parameters that are known by their shape as `WILD`; none for an empty message."""
    text = _SPACE.sub(" ", masked).strip().replace(WILD, "0")
    if text.startswith('{"'):
        text = _MEMBER.sub(f":{WILD}", text)
        return tuple(text.split(" ", MAX_TOKENS)[:MAX_TOKENS])
    text = found[1] if (found := _LOGFMT.match(text)) and found[1] else text
    for _ in range(_BRACES):
        text = _BRACED.sub("\x01", text)
    text = text.replace("\x01", "{0}")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    if len(_LABELLED.findall(text)) >= _MIN_LABELLED:
        text = _LABELLED.sub(lambda found: WILD + found[0][found[0].index(" (") :], text)
    for _ in range(2):
        text = _RUN.sub(WILD, _BRACKETED.sub(WILD, _OPTIONAL.sub("", _RUN.sub(WILD, text))))
    return tuple(text.split(" ", MAX_TOKENS)[:MAX_TOKENS]) if text else ()


def cluster_texts(texts: Sequence[tuple[str, int]], known: Iterable[tuple[str, str]] = ()) -> list[Pattern]:
    """The pattern of each of `texts`, which are (masked text, lines), in their order.

    `known` are the (pattern id, template) of earlier days; the order does not matter. Of more than `MAX_DISTINCT` texts
    those with the fewest lines get `REST`.
    """
    most = texts
    if len(texts) > MAX_DISTINCT:
        most = sorted(texts, key=lambda pair: (-pair[1], pair[0]))[:MAX_DISTINCT]
    shapes = {text: tokenize(text) for text, _ in most}
    found = patterns(set(shapes.values()), [Pattern(*pair) for pair in known])
    return [found.get(shapes.get(text, ()), REST) for text, _ in texts]


def patterns(templates: set[Template], known: Iterable[Pattern] = ()) -> dict[Template, Pattern]:
    """The pattern of each of `templates`, which are results of `tokenize`."""
    before = Matcher(known)
    found = {template: pattern for template in templates if (pattern := before.match(template)) is not None}
    fresh = [template for template in templates if template and template not in found]
    became = generalize_templates([*fresh, *before.by_template])
    now = Matcher(pattern_of(" ".join(became[template])) for template in fresh)
    found.update((template, now.match(template) or pattern_of(" ".join(became[template]))) for template in fresh)
    found[()] = found[(WILD,)] = REST
    return found
