"""Which files match the patterns, when to scan for them, and how to open them safely."""
