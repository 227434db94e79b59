"""The status page: one look tells whether all is right, and if not, where."""
