"""Which node of a cluster leads which stream and consumer, and spreading that evenly."""
