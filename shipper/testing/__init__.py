"""In-memory streams that fulfil the ports and can be made to fail; they ship, so that users can test too."""
