"""Writes the archive: pull, watermark, file, fsync, journal, ack."""
