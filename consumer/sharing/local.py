"""The bucket of a collector that may not have one: nobody else is seen, and nobody objects."""

from collections.abc import Sequence

from shipper.model import Entry


class LocalBucket:
    """Leaves everything to the locks on this machine."""

    async def entries(self, keys: Sequence[str]) -> dict[str, Entry]:
        """Nothing."""
        del keys
        return {}

    async def put(self, key: str, value: bytes, *, expected: int | None = None) -> int | None:
        """A revision, always."""
        del key, value
        return (expected or 0) + 1

    async def forget(self, key: str) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""
