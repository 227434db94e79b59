"""A page in the browser that searches the archive."""
