"""What a worker asks before it writes: whether the partition is still its own."""

from typing import Protocol


class Fence(Protocol):
    """The right to write a partition, for some seconds at a time."""

    async def hold(self) -> None:
        """Return while the right is sure, for the next moment at least.

        Raises:
            Fenced: another collector has the partition. Transient: nobody knows at the moment; ask again later.
        """
        ...

    async def prove(self) -> None:
        """Return once it is known that the right was still here after the call.

        Whoever takes the partition later knows everything that was committed before the call. Raises as `hold` does.
        """
        ...


class Unshared:
    """Nobody else writes the partition: the lock on this machine says so."""

    async def hold(self) -> None:
        """Return."""

    async def prove(self) -> None:
        """Return."""
