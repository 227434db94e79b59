"""Which words of first templates are parameters after all, by how many different ones stand at the same place.

Each step takes a set of templates and says what becomes of each, so the order in which they came plays no part.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from spark_analytics.patterns.tokens import Template, fits, generalized, is_name, is_wild, is_word, may_vary, words

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
