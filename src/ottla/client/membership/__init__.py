"""Membership in a consumer group.

group_session   carries the machine's requests to the coordinator
machine         the member's states and transitions
plan            the assignors
"""
