"""`validate` and `--dry-run`: what a producer would do, and whether the server would accept it. Sends nothing."""
