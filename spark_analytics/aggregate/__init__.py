"""Group sums of the scanned lines, by SQL texts that DuckDB runs in the driver, or Spark."""
