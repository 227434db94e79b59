"""Man pages and completion scripts, made of the pages of all commands."""
