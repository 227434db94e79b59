"""SQL over the tables and over the lines."""
