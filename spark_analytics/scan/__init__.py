"""One pass over the lines of a day."""
