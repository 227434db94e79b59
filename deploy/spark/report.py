"""What `spark-submit` is given as the program: all else comes in the wheel (--py-files) or is installed."""

import runpy

runpy.run_module("spark_analytics", run_name="__main__", alter_sys=True)
