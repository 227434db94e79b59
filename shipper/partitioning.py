"""Which partition a host belongs to."""

FNV_OFFSET = 0x811C9DC5
FNV_PRIME = 0x01000193
MAX_PARTITIONS = 4096


def fnv1a_32(key: bytes) -> int:
    """FNV-1a, 32 bit, as `hash/fnv` in Go and `partition()` in nats-server (server/subject_transform.go)."""
    value = FNV_OFFSET
    for octet in key:
        value = ((value ^ octet) * FNV_PRIME) & 0xFFFFFFFF
    return value


def partition_for(host: str, partitions: int) -> int:
    """The partition of `host` among `partitions`; 0 partitions mean partition 0, as in the blog's fshipper."""
    if partitions <= 0:
        return 0
    return fnv1a_32(host.encode()) % partitions
