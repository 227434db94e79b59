"""Access control: keys, permissions, and the configuration files of the server."""
