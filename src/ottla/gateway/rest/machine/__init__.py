"""REST's decisions, without a cluster.

shapes            JSON Schemas that several routes share
outcomes          the outcomes of records, and of a whole produce request, as REST v2 answers them
consumer_bodies   the bodies of consumer instances: settings, partitions, offsets
event_ids         the id of an event: how far every partition was read
transaction_table which transactions there are, and how those ended that are over
instance_table    which instances there are, whose they are, and which are idle
"""
