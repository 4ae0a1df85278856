"""The group coordinator as a replicated machine. Pure.

coordinator, decision, records, timers                   the door, its decisions, the records of __consumer_offsets
classic, member, membership, static_members              a classic group and its members
joining, syncing, rebalance, expiry                      the verbs of the group protocol
offsets, transactional_offsets                           commits, plain and within a transaction
offset_fetch, committed_offsets                          the offsets in force, and the pending ones
admin, error_responses, consumer_protocol                descriptions and deletion, refusals, Kafka's subscription format
"""
