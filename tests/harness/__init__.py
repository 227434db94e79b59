"""What the tests use: servers, programs as processes, waiting, documents, and the ring of a test."""
