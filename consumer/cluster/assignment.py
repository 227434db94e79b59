"""Which collector should have which partition. Pure: every collector computes the same from the same values."""

from collections.abc import Collection, Iterable, Mapping

from consumer.cluster.membership import Member


def assign(partitions: Iterable[int], members: Collection[Member], holders: Mapping[int, str]) -> dict[int, str]:
    """The instance that should have each partition; a partition that no member takes is not in the result.

    Members that take the same partitions have numbers of partitions that differ by at most one. The holder of a
    partition keeps it unless the numbers differ by more, so a member that joins or leaves moves only its own share.
    """
    shares: dict[str, list[int]] = {member.instance: [] for member in sorted(members, key=_order)}
    takers = {member.instance: member for member in members}
    free: list[tuple[int, int, list[str]]] = []
    for partition in sorted(set(partitions)):
        able = [instance for instance in shares if takers[instance].takes(partition)]
        holder = holders.get(partition)
        if holder in able:
            shares[holder].append(partition)
        elif able:
            free.append((len(able), partition, able))
    for _, partition, able in sorted(free):  # the most restricted first
        min((shares[instance] for instance in able), key=len).append(partition)
    _even_out(shares, takers)
    return {partition: instance for instance, share in shares.items() for partition in share}


def _order(member: Member) -> tuple[str, str]:
    return member.name, member.instance


def _even_out(shares: dict[str, list[int]], takers: Mapping[str, Member]) -> None:
    """Move one partition at a time to a member from one that has at least two more."""
    while True:
        by_size = sorted(shares, key=lambda instance: -len(shares[instance]))
        moved = any(
            _move(shares[giver], shares[getter], takers[getter])
            for giver in by_size
            for getter in reversed(by_size)
            if len(shares[giver]) > len(shares[getter]) + 1
        )
        if not moved:
            return


def _move(giver: list[int], getter: list[int], taker: Member) -> bool:
    """Give `taker` the highest partition that it takes; whether there is one."""
    partition = max(filter(taker.takes, giver), default=None)
    if partition is None:
        return False
    giver.remove(partition)
    getter.append(partition)
    return True
