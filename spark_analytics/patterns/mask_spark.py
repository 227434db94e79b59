"""The mask of a line, as Spark columns: the same text as `masking.masked` gives in Python, in two steps.

`numbered` is for every line. `headless` may wait until the lines that are alike by then have become one group, and
`numbered` with it: then `digits_hidden` is for every line, which costs less, and leaves groups that differ in how long
their numbers are.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.patterns import mask


def numbered(message: Column, ahead: Column | None) -> Column:
    """`message` with each number a `0`, without what `ahead` finds, as `rules.ahead` says; None: no line has that.

    `message` is the line, or of JSON the message in it. A pattern may differ by row, but where it changes often, Java
    compiles it anew each time.
    """
    text = cut(message)
    if ahead is not None:
        text = headless(text, ahead)
    return F.regexp_replace(text, mask.NUMBER, mask.MASK)


def digits_hidden(line: Column) -> Column:
    """`line`, which is `cut`, with each digit a `0`: `numbered` makes the same of it as of `line`."""
    keep = F.lit(None)
    return F.mask(line, keep, keep, F.lit(mask.MASK), keep)


def headless(text: Column, header: Column) -> Column:
    """`text` without what `header` finds; an empty one finds nothing. Of what is `numbered` it is `rules.behind`."""
    return F.when(header != "", F.regexp_replace(text, header, F.lit(""))).otherwise(text)


def cut(message: Column) -> Column:
    """`message`, or of a long one the part that is looked at, with `MASK` behind it.

    The bytes are asked first, for counting characters and copying them costs as much as a pass over them.
    """
    most = mask.MOST_CHARACTERS
    is_long = (F.octet_length(message) > most) & (F.char_length(message) > most)
    return F.when(is_long, F.concat(F.substring(message, 1, most), F.lit(mask.MASK))).otherwise(message)
