"""DataFrames into topics: `writer` on the driver, `task` on executors, `encoding` the kernel from Arrow to
record batches.
"""
