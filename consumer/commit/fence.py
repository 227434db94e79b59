"""The right to write a partition, which a writer checks before every write."""

from typing import Protocol


class Fence(Protocol):
    """The right to write a partition for a limited time."""

    async def hold(self) -> None:
        """Return while the right is valid, at least for the next moment.

        Raises:
            Fenced: another collector has the partition. Transient: unknown at the moment; try again later.
        """
        ...

    async def prove(self) -> None:
        """Return once it is confirmed that the right was still valid after the call.

        The next owner of the partition then sees everything that was committed before the call. Raises as `hold` does.
        """
        ...


class Unshared:
    """The right to write a partition that no other process can claim: the lock on this machine guarantees it."""

    async def hold(self) -> None:
        """Return."""

    async def prove(self) -> None:
        """Return."""
