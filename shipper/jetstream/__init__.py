"""The only room that imports nats: connections, and the real side of the ports."""
