"""From one partition to another: which one this host belongs to, and how it gets there in order and whole."""
