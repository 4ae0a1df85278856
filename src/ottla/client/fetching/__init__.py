"""Fetching records from their leaders, or from replicas nearby.

fetcher   one request under way per broker
nearby    the replicas that leaders named for reading
plan      the decisions: partitions to fetch, sessions, epochs, positions in fetched batches
"""
