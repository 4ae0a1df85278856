"""Fetching records from their leaders.

fetcher   one request under way per leader
plan      the decisions: what to ask for, sessions, epochs, positions in fetched batches
"""
