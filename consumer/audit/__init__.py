"""The audit: is the archive what its manifests, its journals and the producers say? It reads, and changes nothing."""
