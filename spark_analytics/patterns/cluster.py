"""From distinct masked texts to patterns, on the driver: deterministic, bounded, with ids that last.

A pattern that was known before is tried first and never changes, so that its id stays the same whatever else comes.

Which of many templates a line follows: the most specific one, from left to right.

Which words of first templates are parameters after all, by how many different ones stand at the same place.

Each step takes a set of templates and says what becomes of each, so the order in which they came plays no part.

What is a parameter by its shape alone: from a masked text to the tokens of its first template.

Masked texts come in here once each, so that these rules may be many; every one of them runs in linear time.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from spark_analytics.patterns.model import MOST_DISTINCT, REST, WILD, Pattern, pattern_of
from spark_analytics.patterns.tokens import Template, fits, generalized, is_name, is_wild, is_word, may_vary, words

LEAST_WORDS = 2
"""Words that a template needs for its parameters to stand for something else than parameters."""

MOST_STEPS = 2_000
"""Tokens that are compared for one line before it counts as unknown: hostile templates are many and alike."""


class _Node:
    __slots__ = ("next", "pattern", "wild")

    def __init__(self) -> None:
        self.next: dict[str, _Node] = {}
        self.wild: dict[str, _Node] = {}
        self.pattern: Pattern | None = None


class Matcher:
    """Finds the pattern of a template among those that it was made with."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._exact: dict[Template, Pattern] = {}
        self._roots: dict[int, _Node] = {}
        for pattern in sorted(patterns, key=lambda pattern: (pattern.template, pattern.id)):
            template = tuple(pattern.template.split(" "))
            if template not in self._exact:
                self._exact[template] = pattern
                if WILD in pattern.template and words(template) >= LEAST_WORDS:
                    self._plant(template, pattern)

    @property
    def templates(self) -> list[Template]:
        """All templates, each once."""
        return list(self._exact)

    def match(self, template: Template) -> Pattern | None:
        """The pattern whose template is `template`, or the most specific one that it follows, or none."""
        exact = self._exact.get(template)
        return exact or self._followed(template)

    def _plant(self, template: Template, pattern: Pattern) -> None:
        node = self._roots.setdefault(len(template), _Node())
        for token in template:
            branch = node.wild if WILD in token else node.next
            node = branch.setdefault(token, _Node())
        node.pattern = pattern

    def _followed(self, template: Template) -> Pattern | None:
        if len(template) not in self._roots:
            return None
        pending = [(self._roots[len(template)], 0)]
        for _ in range(MOST_STEPS):
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


Step = Callable[[set[Template]], dict[Template, Template]]

ENOUGH_NAMES = 3
"""Different names at one place that make it a parameter."""

ENOUGH_WORDS = 5
"""Different plain words at one place that make it a parameter."""

LEAST_CONTEXT = 2
"""Words that must agree for names to be compared."""

LEAST_CONTEXT_OF_WORDS = 3
"""Words that must agree for plain words to be compared."""

MOST_PLACES = 24
"""Tokens of a template whose place is compared with that of others."""


def settled(templates: Iterable[Template]) -> dict[Template, Template]:
    """What becomes of each of `templates`."""
    became = {template: template for template in templates}
    for step in (_names, _absorbed, _varied_words, _absorbed):
        changed = step(set(became.values()))
        became = {template: changed.get(now, now) for template, now in became.items()}
    return became


def _names(templates: set[Template]) -> dict[Template, Template]:
    """Names at the same place of templates that are equal elsewhere, where there are `ENOUGH_NAMES`."""
    alike = defaultdict(list)
    for template in templates:
        places = tuple(at for at in range(len(template)) if may_vary(template, at))
        if places and words(_without(template, places)) >= LEAST_CONTEXT:
            alike[places, _without(template, places)].append(template)
    changed: dict[Template, Template] = {}
    for (places, _), group in alike.items():
        changed.update(_varied(group, places))
    return changed


def _without(template: Template, places: tuple[int, ...]) -> Template:
    out = set(places)
    return tuple(token for at, token in enumerate(template) if at not in out)


def _varied(group: list[Template], places: tuple[int, ...]) -> Iterator[tuple[Template, Template]]:
    """Splits `group` by its places with few names until all others have enough of them."""
    pending = [group]
    while pending:
        alike = pending.pop()
        counts = {at: len({template[at] for template in alike}) for at in places}
        few = [at for at in places if 1 < counts[at] < ENOUGH_NAMES]
        if few:
            parts = defaultdict(list)
            for template in alike:
                parts[template[few[0]]].append(template)
            pending.extend(parts.values())
            continue
        many = {at for at in places if counts[at] >= ENOUGH_NAMES}
        if many:
            yield from ((template, _with_wild(template, many)) for template in alike)


def _with_wild(template: Template, places: set[int]) -> Template:
    return tuple(generalized(token) if at in places else token for at, token in enumerate(template))


def _absorbed(templates: set[Template]) -> dict[Template, Template]:
    """What is a parameter in one template is one in every other that differs there only."""
    changed: dict[Template, Template] = {}
    for alike in _by_length(templates):
        wild: dict[int, str] = {}
        for template in alike:
            for at in _places(template):
                if is_wild(template[at]) and words(template) >= LEAST_CONTEXT:
                    key = _key(template, at)
                    wild[key] = min(wild.get(key, template[at]), template[at], key=_plainest)
        for template in alike:
            if (became := _taken_up(template, wild)) != template:
                changed[template] = became
    return changed


def _taken_up(template: Template, wild: dict[int, str]) -> Template:
    for at in _places(template):
        token = template[at]
        taken = wild.get(_key(template, at), token)
        may = (at or is_wild(token) or is_name(token)) and words(_without(template, (at,))) >= LEAST_CONTEXT
        if may and taken != token and fits(taken, token):
            template = (*template[:at], taken, *template[at + 1 :])
    return template


def _plainest(token: str) -> tuple[int, str]:
    return len(token), token


def _varied_words(templates: set[Template]) -> dict[Template, Template]:
    """Plain words at the same place of templates that are equal elsewhere, where there are `ENOUGH_WORDS`."""
    changed: dict[Template, Template] = {}
    for alike in _by_length(templates):
        at_place: dict[int, list[Template]] = defaultdict(list)
        for template in alike:
            if words(template) > LEAST_CONTEXT_OF_WORDS:
                for at in _places(template):
                    if at and is_word(template[at]):
                        at_place[_key(template, at)].append(template)
        best: dict[Template, tuple[int, int]] = {}
        for group in at_place.values():
            if len(group) >= ENOUGH_WORDS:
                at = _differing(group)
                for template in group:
                    best[template] = max(best.get(template, (0, 0)), (len(group), -at))
        changed.update((template, _with_wild(template, {-at})) for template, (_, at) in best.items())
    return changed


def _differing(group: list[Template]) -> int:
    first, second = group[0], group[1]
    return next(at for at in range(len(first)) if first[at] != second[at])


def _by_length(templates: set[Template]) -> Iterator[list[Template]]:
    lengths = defaultdict(list)
    for template in templates:
        lengths[len(template)].append(template)
    yield from lengths.values()


def _places(template: Template) -> range:
    return range(min(len(template), MOST_PLACES))


def _key(template: Template, at: int) -> int:
    """Equal for templates that differ at `at` only: a hash, as there are twenty for each of 200,000 templates."""
    return hash((at, template[:at], template[at + 1 :]))


MOST_TOKENS = 64
"""Tokens of a template; what follows them is cut off."""

_W = re.escape(WILD)
_BRACES = 4
"""Levels of nested braces that are seen as one value."""

_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_WEEKDAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_TLD = r"(?:com|org|net|edu|gov|mil|int|info|biz|io|local|localdomain|internal|lan|arpa|[a-z]{2})"
_UNIT = r"(?:(?:[kKMGTP]i?)?[bB]|[mun]?s|secs?|msecs?|[kKMG]?Hz|%)"

_IN_PATH = r"[^\s\"'<>(){}\[\],;|=?]"
_IN_WORD = r"[\w.@$*#%~/\\?!&+^`-]"

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
    (rf"<?(?<![\w.+-])[+-]?0(?:\.0)? ?{_UNIT}(?![\w/-]|\.\w)", WILD),
    (rf"(?<!{_IN_WORD})(?:(?!0){_IN_WORD})*0{_IN_WORD}*", WILD),
    # Values behind an equals sign, truth values, rules of asterisks.
    (r"(?<==)( ?)\"[^\"]{0,200}\"", rf"\1{WILD}"),
    (r"(?<==)( ?)(?:[A-Za-z_$.-][\w.$@/+-]*\*?)(?![\w.$@/+-]|\s?=)", rf"\1{WILD}"),
    (r"(?<![\w.$-])(?:true|false|null|TRUE|FALSE|NULL|nil|None|True|False)(?![\w.$-])", WILD),
    (r"(?<![^\s\"'=:,;(\[{])[*#=_~.-]{4,}(?![^\s\"'=:,;)\]}])", WILD),
    # Quoted words; sentences in quotes are taken as they are.
    (r"\"[^\s\"]{1,200}\"(?!\s?:)", f'"{WILD}"'),
    (r"(?<![A-Za-z])'[^\s']{1,200}'(?![A-Za-z])", f"'{WILD}'"),
)
_RULES = tuple((re.compile(pattern, re.ASCII), text) for pattern, text in _SHAPES)

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufffd]+")
_BRACED = re.compile(r"\{[^{}]*\}")
_MEMBER = re.compile(r"(?<=\"):\s?(?:\"[^\"]*\"?|[^\s,{}\[\]\"][^,{}\[\]\"]*)")
_LOGFMT = re.compile(r"(?:[\w.-]+=(?:\"[^\"]*\"|[^\s\"]*) )*(?:msg|message)=\"([^\"]*)", re.ASCII)
_RUN = re.compile(rf"{_W}(?:[ \t]?[,;:/@.+*|#&?-]?[ \t]?{_W})+")
_OPTIONAL = re.compile(rf" \((?:{_W}|,| )*\)")
_BRACKETED = re.compile(rf"{_W}(?:\({_W}\)|\[{_W}\]|\{{{_W}\}})")


def shaped(masked: str) -> Template:
    """The tokens of `masked` with every parameter that its shape betrays as `WILD`; none for an empty message."""
    text = _SPACE.sub(" ", masked).strip().replace(WILD, "0")
    if text.startswith('{"'):
        text = _MEMBER.sub(f":{WILD}", text)
        return tuple(text.split(" ", MOST_TOKENS)[:MOST_TOKENS])
    text = found[1] if (found := _LOGFMT.match(text)) and found[1] else text
    for _ in range(_BRACES):
        text = _BRACED.sub("\x01", text)
    text = text.replace("\x01", "{0}")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    for _ in range(2):
        text = _RUN.sub(WILD, _BRACKETED.sub(WILD, _OPTIONAL.sub("", _RUN.sub(WILD, text))))
    return tuple(text.split(" ", MOST_TOKENS)[:MOST_TOKENS]) if text else ()


def clustered(texts: Sequence[tuple[str, int]], known: Iterable[tuple[str, str]] = ()) -> list[tuple[str, str]]:
    """The (pattern id, template) of each of `texts`, which are (masked text, lines), in their order.

    `known` are the (pattern id, template) of former days; both may come in any order. Of more than `MOST_DISTINCT`
    texts those with the fewest lines get `REST`.
    """
    shapes = _shapes(texts)
    found = patterns(set(shapes.values()), [Pattern(*pair) for pair in known])
    chosen = (found.get(shapes.get(text, ()), REST) for text, _ in texts)
    return [(pattern.id, pattern.template) for pattern in chosen]


def _shapes(texts: Sequence[tuple[str, int]]) -> dict[str, Template]:
    if len(texts) > MOST_DISTINCT:
        texts = sorted(texts, key=lambda pair: (-pair[1], pair[0]))[:MOST_DISTINCT]
    return {text: shaped(text) for text, _ in texts}


def patterns(templates: set[Template], known: Iterable[Pattern] = ()) -> dict[Template, Pattern]:
    """The pattern of each of the first `templates` that `shapes.shaped` gives."""
    before = Matcher(known)
    found = {template: pattern for template in templates if (pattern := before.match(template)) is not None}
    fresh = [template for template in templates if template and template not in found]
    became = settled([*fresh, *before.templates])
    now = Matcher(pattern_of(" ".join(became[template])) for template in fresh)
    found.update((template, now.match(template) or pattern_of(" ".join(became[template]))) for template in fresh)
    found[()] = found[(WILD,)] = REST
    return found
