"""Ottla's own clients on asyncio: `Producer`, `Consumer`, `Admin`, and the ways to process records.

calls        checks of arguments, and of the way in which a client is used
requests     plain values and their translation to and from Kafka's messages; pure
cluster      connections, metadata kept fresh, routing, retries, group coordinators
producer     batching, sending, delivery reports; its decisions are in producer/machine
consumer     subscriptions, positions, commits, `at_least_once` and `at_most_once`
fetching     fetch requests and the batches they bring; its decisions are in fetching/plan
membership   a member of a consumer group: its machine, and the assignors in membership/plan
exactly_once records in, records out, offsets, in one transaction: a consumer and a producer together
mirror       topics of one cluster copied to another, with the offsets of groups
admin        topics, settings, groups, reassignments
sync         reading without an event loop, for Spark's planner and executors

The client core is cluster/machine: pure decisions, carried out by cluster on asyncio and by sync on blocking
sockets. Imports between these rooms have no cycle: exactly_once -> consumer, producer; admin, consumer ->
membership, fetching -> cluster -> requests -> calls; producer, sync -> cluster.
"""
