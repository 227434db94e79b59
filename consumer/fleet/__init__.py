"""The state of hosts and partitions, as `status` and the status page show it."""
