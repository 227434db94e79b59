"""What becomes of a file and of a day: sealed, merged, closed, retired."""
