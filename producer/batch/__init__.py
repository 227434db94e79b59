"""Batches: compress what was read, in parallel, within the rate limit."""
