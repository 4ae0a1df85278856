"""Group coordinators: one for each partition of __consumer_offsets that this broker leads.

coordinators   which groups are coordinated here, and the shard of each
group_shard    one partition's coordinator: the group machine over its log
group_replay   the coordinator's state, rebuilt from the log
java_hash      Java's hash of a group id, which chooses the partition
"""
