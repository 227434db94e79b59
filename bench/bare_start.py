"""What no report goes without: Java and Spark are started as for a day of so many bytes, and one row is counted.

python bare_start.py BYTES LOG
"""

import sys
from pathlib import Path

from spark_analytics.runtime.session import open_session


def main() -> None:
    size_bytes, log = int(sys.argv[1]), Path(sys.argv[2])
    with open_session(master=None, log=log, size_bytes=size_bytes, writes_classes=True) as spark:
        assert spark.range(1).count() == 1


if __name__ == "__main__":
    main()
