"""Another number of partitions, under traffic: a new map, hosts that follow it, streams that nobody needs any more."""
