"""The report: load tables, build findings, publish HTML, CSV and JSON."""
