"""The severity of a line by its words, as the search page and `--count level` have it. Pure."""

from shipper.linear_regex import Linear

SEVERITY_WORDS = {
    "error": "emerg|emergency|panic|alert|crit|critical|fatal|err|error|severe",
    "warning": "warn|warning",
    "info": "info|information|notice",
    "debug": "debug|trace|verbose",
}
"""A line has a severity when it has one of these words; case does not matter. The first one that it has is its own."""
NO_SEVERITY = "none"
_EXPRESSIONS = [(name, Linear(rf"(?i)\b(?:{words})\b".encode())) for name, words in SEVERITY_WORDS.items()]


def severity_of(line: bytes) -> str:
    """The severity of a line; `none`: it has none."""
    for name, expression in _EXPRESSIONS:
        if expression.search(line, 0, len(line)) is not None:
            return name
    return NO_SEVERITY
