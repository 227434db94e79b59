"""What became of each file, and what is read next."""
