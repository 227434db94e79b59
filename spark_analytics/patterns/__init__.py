"""Pattern mining: every line is masked, then the distinct masked texts are clustered into patterns.

`mask` has the rules of the mask and its Python version, `mask_spark` its Spark version; `cluster` turns distinct masked
texts into patterns; `cli` prints the pattern of every line of a file.
"""
