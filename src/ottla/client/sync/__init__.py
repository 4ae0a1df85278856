"""Reading without an event loop, for Spark's planner and executors, whose processes start often.

blocking_connection   one TCP connection; one request at a time
blocking_brokers      the blocking driver of `cluster.machine`: a connection to each broker
planner_admin         topics, offsets and commits, for the planner
range_reader          one range of offsets, for an executor
range_batches         the batches in a fetch response
tiered_reader         the same range, what lies in the object store from there
segment_pieces        the batches of a segment in the store, checked and read ahead
remote_aborted        the aborted transactions among them
transaction_group     a writer of many processes, whose transactions are committed by one decision
transaction_ledger    the same where brokers commit them one by one: decisions in a topic
machine               which fetches read a range, and when to try again
"""
