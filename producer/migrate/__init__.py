"""`fshipper migrate`: the configuration of another shipper as one of fshipper, and what of it has no counterpart."""
