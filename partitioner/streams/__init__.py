"""What operators do to single streams, and what the server tells of itself."""
