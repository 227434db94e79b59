"""Schemas and storage of the Parquet tables."""
