"""The state of every file: reading, rotation, truncation, deletion."""
