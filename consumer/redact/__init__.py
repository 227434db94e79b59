"""Redaction of sealed segments, with a record in the manifest."""
