"""What the producer would do, and whether the server would let it: nothing is sent."""
