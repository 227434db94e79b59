"""The desired streams as a file: written by operators, or exported from a server."""
