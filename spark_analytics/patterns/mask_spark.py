"""The mask of a line as Spark columns: `headless(numbered(...))` gives the same text as `mask.masked`.

Both can be deferred until equal lines are grouped. Then `digits_hidden` is applied to each line instead, which is
faster and leaves groups that differ in the length of their numbers.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from spark_analytics.patterns import mask


def numbered(message: Column, header: Column | None) -> Column:
    """`message` with each number replaced by `MASK`, without `header` (`mask.header_before_masking`).

    `header` is None if no line has one. It may differ by row, but Java compiles it again whenever it changes.
    """
    text = cut(message)
    if header is not None:
        text = headless(text, header)
    return F.regexp_replace(text, mask.NUMBER, mask.MASK)


def digits_hidden(line: Column) -> Column:
    """`line`, which is `cut`, with each digit replaced by `0`; `numbered` gives the same result for both."""
    keep = F.lit(None)
    return F.mask(line, keep, keep, F.lit(mask.MASK), keep)


def headless(text: Column, header: Column) -> Column:
    """`text` without what `header` matches; empty: nothing. For `numbered` text it is `mask.header_after_masking`."""
    return F.when(header != "", F.regexp_replace(text, header, F.lit(""))).otherwise(text)


def cut(message: Column) -> Column:
    """`message`, or the first `MAX_CHARACTERS` of a longer one followed by `MASK`.

    Bytes are compared first, because counting characters is a pass over the message.
    """
    most = mask.MAX_CHARACTERS
    is_long = (F.octet_length(message) > most) & (F.char_length(message) > most)
    return F.when(is_long, F.concat(F.substring(message, 1, most), F.lit(mask.MASK))).otherwise(message)
