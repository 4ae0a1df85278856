"""Reading without an event loop, for Spark's planner and executors, whose processes start often.

raw_connection, raw_cluster   blocking sockets, and the leaders behind them
raw_admin                     offsets and topics
range_reader, raw_batches     one range of offsets, as raw batches
"""
