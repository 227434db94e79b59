"""Group sums of the scanned lines, by Arrow in the driver or by Spark."""
