"""What is left out, blacked out or converted on the way."""
