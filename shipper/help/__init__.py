"""What a command takes, as a value: the help, man pages and completion scripts are made of it."""
