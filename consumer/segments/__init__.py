"""Segments of the archive: seal, compact, close days, retention."""
