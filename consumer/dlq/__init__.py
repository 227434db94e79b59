"""Dead letters: list, show, requeue, drop."""
