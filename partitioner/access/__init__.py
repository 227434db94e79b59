"""Who may do what on the bus: rights, keys, and the files that tell the server."""
