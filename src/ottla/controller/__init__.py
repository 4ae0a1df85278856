"""The cluster's metadata as a replicated machine. Pure.

controller, commands, decision, records      the door, its commands, the metadata records
image, delta, snapshot                       the immutable image, its changes, its snapshots
brokers, liveness, features, producer_ids    registrations, heartbeats, feature levels, blocks of producer ids
topics, topic_names, partitions, placement   topics and where their replicas go
alter_partition, partition_changes, elections, reassignment   in-sync replicas, leaders, moves
configs, config_sources                      settings of topics and brokers
describe                                     answers that only read the image
"""
