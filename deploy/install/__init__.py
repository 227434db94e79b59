"""`fshipper install`: units and commented configuration of a machine's role, written once, and never over a change."""
