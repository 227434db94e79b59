"""Inputs that are no files: standard input, FIFOs, a syslog listener, the systemd journal. Each gets a file."""
