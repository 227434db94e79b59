"""The modules of the folder `bench`, which these tests are of."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))
