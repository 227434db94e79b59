"""Streams with their consumers as files, and streams again of such files."""
