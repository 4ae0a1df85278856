"""Replication between brokers, from both sides.

fetchers, fetcher_lane, fetcher_session   as a follower: one lane per leader, its incremental fetch session
follower_sessions                         as a leader: the fetch sessions of followers and their progress
damaged_replicas                          replicas that cannot be read: given up, and repaired
isr_proposals                             changes of the in-sync replicas, brought to the controller
throttle                                  the rate limit of reassignments
"""
