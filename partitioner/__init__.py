"""Says which streams and consumers there should be, compares with what is, and makes it so."""
