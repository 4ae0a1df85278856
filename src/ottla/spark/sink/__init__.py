"""DataFrames into topics: `writer` on the driver, `task` on executors, `encoding` the kernel from Arrow to
record batches. `exactly_once` has the transactions, `ledger_commit` their end on Apache Kafka, `write_identity` who
writes what.
"""
