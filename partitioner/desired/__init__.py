"""Which streams there should be, as a file: written by people, or taken from a server."""
