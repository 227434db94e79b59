"""Defines the desired streams and consumers, compares them with the server's, and applies the difference."""
