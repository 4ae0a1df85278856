"""Confluent's REST v3: what administrators and producers call. It has no consuming.

machine      resources as v3 shows them, records of a stream
place        which cluster a request names, and the links of its resources
cluster      clusters and brokers
topics       topics, partitions and settings
groups       consumer groups, members and lag
records      POST .../records: many records on one connection, an answer line for each
"""
