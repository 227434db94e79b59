"""`fshipper explain`: how far a file or a line is on its way, since when, and what to do next."""
