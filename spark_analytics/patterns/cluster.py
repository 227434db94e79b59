"""From distinct masked texts to patterns, on the driver: deterministic, bounded, with ids that last.

A pattern that was known before is tried first and never changes, so that its id stays the same whatever else comes.
"""

from collections.abc import Iterable, Sequence

from spark_analytics.patterns.matching import Matcher
from spark_analytics.patterns.model import MOST_DISTINCT, REST, WILD, Pattern, pattern_of
from spark_analytics.patterns.shapes import shaped
from spark_analytics.patterns.tokens import Template
from spark_analytics.patterns.varying import settled


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
