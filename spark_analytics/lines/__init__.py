"""Formats of log lines: timestamps, severity."""
