"""`fshipper search`: find lines in the archive of all hosts. Read only."""
