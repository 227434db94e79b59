"""Operations on single streams, and events of the server."""
