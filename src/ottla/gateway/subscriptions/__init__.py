"""Subscriptions: a consumer whose records are pushed as fast as its caller takes them, for WebSockets and gRPC.

machine         what is wanted; which records may be sent, and which are acknowledged
subscription    one subscription: reads, pushes, commits
"""
