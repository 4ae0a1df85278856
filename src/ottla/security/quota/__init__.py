"""Quotas: how much somebody may do. Pure.

entities       Kafka's keys and entities (users, client ids, addresses), and which quota is in force for a client
token_bucket   a rate, with a burst; bytes beyond it are a debt
"""
