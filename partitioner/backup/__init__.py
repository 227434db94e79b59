"""Backup and restore of streams with their consumers."""
