"""What the archive holds for a day: manifests, segments, gaps."""
