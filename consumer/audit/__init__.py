"""The audit: compare the archive with its manifests, its journals and the producers. Read only, except repair."""
