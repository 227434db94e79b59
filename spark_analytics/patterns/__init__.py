"""Pattern mining: every line is masked, then the distinct masked texts are clustered into patterns."""
