"""`fshipper fleet`, `join`, `leave`: a site with its own authority, and hosts that join it with one-time tokens."""
