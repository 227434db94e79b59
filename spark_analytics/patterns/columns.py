"""The mask of a line, as a Spark column: the same text as `masking.masked` gives in Python."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.patterns import rules


def masked(message: Column, header: Column) -> Column:
    """`message` without what `header` finds, each number a `0`; `header` as `rules.header` says.

    `message` is the line, or of JSON the message in it. The header may differ by row, but where it changes often,
    Java compiles it anew each time.
    """
    return F.regexp_replace(F.regexp_replace(_cut(message), header, F.lit("")), rules.NUMBER, rules.MASK)


def _cut(message: Column) -> Column:
    """The bytes are asked first, for counting characters and copying them costs as much as a pass over them."""
    most = rules.MOST_CHARACTERS
    is_long = (F.octet_length(message) > most) & (F.char_length(message) > most)
    return F.when(is_long, F.concat(F.substring(message, 1, most), F.lit(rules.MASK))).otherwise(message)
