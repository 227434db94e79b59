"""One session with the server: handshake, in-flight window, receipts, control messages."""
