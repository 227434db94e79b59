"""The tables that derive from sums, and the line expressions for logins and requests."""
