"""The cases of the suite: a file answers one question."""
