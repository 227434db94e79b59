"""Reads the archive by its manifests and makes the tables and the report. Imports the pure ring only."""
