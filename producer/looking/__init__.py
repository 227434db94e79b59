"""Which files are there, and when to look."""
