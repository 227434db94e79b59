"""Change the number of partitions under traffic."""
