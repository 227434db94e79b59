"""`fshipper wait`: ends when the archive has everything that was written up to a time."""
