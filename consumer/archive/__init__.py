"""The library that reads the archive: directory, journal, manifests, parts and segments."""
