"""What is new in a batch, where it goes, and what of it is committed."""
