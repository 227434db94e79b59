"""Which of many templates a line follows: the most specific one, from left to right."""

from collections.abc import Iterable

from spark_analytics.patterns.model import WILD, Pattern
from spark_analytics.patterns.tokens import Template, fits, words

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
