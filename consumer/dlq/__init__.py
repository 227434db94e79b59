"""Dead letters: look at them, send their bytes to the archive after all, drop them."""
