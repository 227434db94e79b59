"""Inputs that are not files: standard input, FIFOs, syslog, the systemd journal. Each has a spool file."""
