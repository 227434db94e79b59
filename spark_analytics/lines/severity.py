"""The level of a line: column expressions of the rules of `line_levels`. Eight levels; `none` if the line has none."""

import functools
import itertools
import operator
from collections.abc import Iterable, Mapping

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from shipper.line_levels import (
    LEVEL_PATHS,
    LEVEL_PREFIX,
    NONE,
    RULES,
    SERILOG_TIME,
    STATUSES,
    TEXT_PATHS,
    WORDS,
    Rule,
)
from shipper.line_times import COLOUR
from spark_analytics.lines import json_fields

_ESCAPE = "\x1b"
_BETWEEN = "\x1f"  # the unit separator of ASCII, which no constant has

JSON_PATHS = (*LEVEL_PATHS, *TEXT_PATHS, SERILOG_TIME)
"""What is read of a JSON line."""

RULES_WITHOUT_NUMBERS = tuple(rule for rule in RULES if not rule.is_number)
"""The rules for lines whose numbers are masked."""


def head_of(line: Column) -> Column:
    """The characters of a line that are searched for a level, without colours."""
    return uncoloured(F.substring(line, 1, LEVEL_PREFIX))


def uncoloured(head: Column) -> Column:
    """`head` without colours."""
    colours = F.regexp_replace(head, F.lit(COLOUR.pattern), F.lit(""))
    return F.when(F.contains(head, F.lit(_ESCAPE)), colours).otherwise(head)


def of_line(head: Column, placed: Column | None, rules: Iterable[Rule] = RULES) -> Column:
    """The level in `head`, which is of `head_of`, or `none`.

    Numbers except the one of syslog's PRI may be masked if `rules` are `RULES_WITHOUT_NUMBERS`. `placed` is the pattern
    of a level at a known position (`LogFormat.level`); if it is empty or finds nothing, the level is searched. `placed`
    is None if no line has a pattern: then there is less code to compile.
    """
    found = [_by(rule, head) for rule in rules]
    if placed is not None:
        word = F.lower(F.call_function("regexp_extract", head, placed, F.lit(1)))
        found.insert(0, F.when(placed != "", lookup(WORDS, word)))
    return F.coalesce(*found, F.lit(NONE))


def _by(rule: Rule, head: Column) -> Column:
    found = lookup(rule.meaning, F.lower(F.regexp_extract(head, rule.pattern, 1)))
    if rule.begins:
        return F.when(head.startswith(rule.begins), found)
    if rule.needs:
        return F.when(functools.reduce(operator.or_, (F.contains(head, F.lit(text)) for text in rule.needs)), found)
    return found


def of_status(status: Column) -> Column:
    """The level of a request by its status; null without a status."""
    return lookup(STATUSES, F.substring(status.cast("string"), 1, 1))


def of_fields(fields: Column) -> Column:
    """The level that a key of an object names; null if none does."""
    paths = list(LEVEL_PATHS)
    quick = [_meant(LEVEL_PATHS[path], json_fields.at(fields, path)) for path in paths[: json_fields.QUICK_PATHS]]
    rest = itertools.groupby(paths[json_fields.QUICK_PATHS :], lambda path: tuple(LEVEL_PATHS[path].items()))
    others = [
        _meant(dict(meaning), json_fields.first_of(json_fields.joined(fields, group), dict(meaning)))
        for meaning, group in rest
    ]
    return F.coalesce(*quick, *others)


def _meant(meaning: Mapping[str, str], name: Column) -> Column:
    return F.when(name.isNotNull(), lookup(meaning, F.lower(name)))


def of_serilog(fields: Column) -> Column:
    """The level of an object without one; null, except of a line of Serilog."""
    return F.when(json_fields.at(fields, SERILOG_TIME).isNotNull(), F.lit("info"))


def lookup(names: Mapping[str, str], key: Column) -> Column:
    """The value of `key` in `names`; null if it is not there."""
    return F.try_element_at(F.map_from_arrays(constants(names), constants(names.values())), key)


def own_method(value: Column) -> Column:
    """`value`, for which Spark writes a Java method of its own; it is evaluated for each line, also if not needed.

    Spark writes methods only for what occurs twice. The loop over the lines is one method: if it is too long, the first
    compiler of Java gives up ("out of virtual registers"), and the loop is interpreted, in several times the CPU. Small
    days have no generated code (`tuning`): there it would be evaluated twice.
    """
    is_once = SparkSession.builder.getOrCreate().conf.get("spark.sql.subexpressionElimination.enabled") == "true"
    return F.least(value, value) if is_once else value


def first_characters(text: Column, most: int) -> Column:
    """`text`, or its first characters if it is longer; bytes are compared, as Spark finds characters by counting."""
    return F.when(F.octet_length(text) <= most, text).otherwise(F.substring(text, 1, most))


def constants(texts: Iterable[str]) -> Column:
    """An array that Spark makes once for all lines, split from one text: each literal would be a call to Java."""
    return F.split(F.lit(_BETWEEN.join(texts)), _BETWEEN)
