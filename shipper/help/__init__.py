"""What a command takes, as a value, and its help for a terminal."""
