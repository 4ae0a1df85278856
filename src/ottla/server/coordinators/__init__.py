"""Coordinators: one for each partition of an internal topic that this broker leads.

internal_topic    such a topic: creation, and the partition and leader of a key
shards            the shards that this broker has: loaded as partitions come, unloaded as they leave
coordinator_log   one partition as the log of a machine: append, replay, acknowledge
log_reading       reads a whole partition to rebuild the machine
java_hash         Java's hash of a name, which chooses the partition
marker_writer     the ends of transactions, written into any partition that this broker leads

coordinators      groups: which of them are coordinated here, and the shard of each
group_shard       one partition's group coordinator
group_replay      what a batch of the log means to the group coordinator

transactions           which transactional ids are coordinated here, and the shard of each
transaction_shard      one partition's transaction coordinator
marker_sender          the markers that end transactions, on their way to the leaders of partitions
transaction_questions  questions of partitions to a transaction's coordinator, wherever it is
transaction_messages   the messages of such questions
"""
