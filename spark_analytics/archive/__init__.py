"""The archive's day: manifests, segments, gaps."""
