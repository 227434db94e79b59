"""The programs that read log lines: tail, replay, search and browse."""
