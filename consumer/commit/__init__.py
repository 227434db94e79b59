"""Apply a batch durably: watermark, append, fsync, journal."""
