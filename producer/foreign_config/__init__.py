"""`fshipper migrate`: a producer's configuration from that of another shipper, and what has no counterpart."""
