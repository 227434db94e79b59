"""Which patterns the lines of a day follow: a cheap mask for every line, then clustering of the few distinct texts.

`rules` holds the mask once, for Spark (`columns`) and for Python (`masking`); `cluster` turns distinct masked texts
into patterns, `news` tells which of them are new or surge, `cli` prints the pattern of every line of a file.
"""
