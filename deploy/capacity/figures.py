"""The measured figures of docs/development/benchmarks.md that sizes are computed with. A test compares them."""

COMPRESSION = 12.0
"""Log text divided by its stored size: real log samples."""
PRODUCER_CPU_SECONDS_PER_GIB = 2.14
COLLECTOR_CPU_SECONDS_PER_GIB = 1.90
SERVER_CPU_SECONDS_PER_GIB = 0.60
BLOCKS_PER_SECOND_OF_A_CORE = 9988 / 0.96
"""Small blocks that a collector writes with one core: 10,000 hosts that write one each second."""
PRODUCER_MIB = 56
COLLECTOR_MIB = 226
SERVER_MIB = 160
"""The largest that the memory flood measured."""
REPORT_MIB = 1614
REPORT_CPU_SECONDS_PER_GB = 44.0
REPORT_FIXED_CPU_SECONDS = 14.4
