"""Several collectors of one archive: membership, leases, assignment of partitions, epochs."""
