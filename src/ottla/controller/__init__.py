"""The cluster's metadata as a replicated machine. Pure.

controller, commands, decision, records      the door, its commands, the metadata records
image, delta, snapshot                       the immutable image, its changes, its snapshots
brokers, liveness, features, producer_ids    registrations, heartbeats, feature levels, blocks of producer ids
topics, topic_names, partitions, placement   topics and where their replicas go
alter_partition, partition_changes, elections, reassignment   in-sync replicas, leaders, moves
unclean_recovery                             partitions that nobody is trusted with, and the most complete log
eligible_leaders, replica_trust, lost_replicas   who holds all committed records without being in sync, and who may not
configs, config_sources                      settings of topics and brokers
scram                                        SCRAM credentials of users
delegation_tokens, token_records             delegation tokens, and their records
acls, acl_records                            access control lists, and their records
client_quotas, quota_records                 quotas of users and client ids, and their records
alter_remote_log, remote_log, remote_log_records   segments in the object store: changes, values, records
describe                                     answers that only read the image
"""
