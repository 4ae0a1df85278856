"""Quotas: how much somebody may do. Pure.

entities           Kafka's keys and entities (users, client ids, addresses), and which quota is in force for a client
token_bucket       a rate, with a burst; what is taken beyond it is a debt
client_buckets     the buckets of the clients that have a quota
mutations          how many partitions a client may create and delete (KIP-599)
connection_rates   how many connections may be made: at a broker, at a listener, from an address (KIP-612)
"""
