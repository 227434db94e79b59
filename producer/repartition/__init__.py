"""Move a host to another partition, in order and without loss."""
