"""Edits of a block before it is sent: line filter, redaction, conversion of the character set."""
