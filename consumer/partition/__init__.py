"""Services of a collector for one partition: missing ranges, maintenance, purge, receipts."""
