"""What each table of the report derives from the sums."""
