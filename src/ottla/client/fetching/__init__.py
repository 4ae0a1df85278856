"""Fetching records from their leaders.

fetcher   one request under way per leader
plan      the decisions: partitions to fetch, sessions, epochs, positions in fetched batches
"""
