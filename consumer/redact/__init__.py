"""Text that must not stay is blacked out in sealed segments, with a record in the manifest."""
