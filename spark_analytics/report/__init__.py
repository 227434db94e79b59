"""What people read in the morning: `gather` makes evidence of tables, `assemble` facts of it, `publish` files.

No Spark in here. A fact is decided once, by `assemble` and whom it asks; page, JSON, CSV and text show it.
"""
