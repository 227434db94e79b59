"""Local and remote locations of archive and report."""
