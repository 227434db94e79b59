"""The environment of the page templates: autoescaped, and a name without a value is an error."""

from collections.abc import Callable, Mapping
from typing import Any

import jinja2


def environment(filters: Mapping[str, Callable[..., Any]]) -> jinja2.Environment:
    """An environment for the templates of this package, with `filters`."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("spark_analytics"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= filters
    return made
