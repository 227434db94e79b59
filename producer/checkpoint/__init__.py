"""The checkpoint: which bytes of each file are acknowledged, saved to disk and recovered."""
