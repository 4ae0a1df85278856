"""A subscription's decisions, without a connection.

wanted              what a caller subscribes to, and where it wants to go on
acknowledgements    the records of one partition that were sent, and those that are acknowledged
open_records        the same of all partitions of a consumer instance
flow                how many records may be sent, which wait, and what can be committed
"""
