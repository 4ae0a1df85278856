"""Tiered storage: closed segments go to an object store, and old records come back from there (docs/tiers.md).

tiers            the door: built once if tiered storage is on, started and stopped with the broker
opening          the door's building, for brokers that have tiered storage
store_access     the store, used on threads of its own; what is wrong with it, and when to try again
leader_work      one leader's turn: truncate, retain, delete and copy, in this order
remote_changes   the leader's requests to the controller, and the wait until they are in force here
cold_reads       records below the local log start, for Fetch
cold_lookups     offsets by timestamps below the local log start, for ListOffsets
segment_reads    pieces of objects, read and verified, in threads
read_cache       what was read, within a limit
"""
