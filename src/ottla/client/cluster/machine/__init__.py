"""The client core: it decides which broker to ask, when to ask again, and when to give up. Pure.

conversation      the machine: it wants a `Send` or a `Pause`, and hears a response or a failure
known_cluster     the brokers, leaders and coordinators that a client has learned of
retries           an inquiry that is repeated until every item has its outcome
leaders           one question to the leader of each partition
coordinators      one question to the coordinator of each group or transactional id
single_brokers    one question to any broker, to several, or to the broker that a resource names
topic_inquiries   topics, and the offsets of partitions
remote_inquiries  what of partitions lies in an object store
group_inquiries   committed offsets of groups
transaction_inquiries   transactions at their coordinators, producers at the leaders of partitions
transaction_group   a writer of many transactional ids
leaderless_partitions   the logs of the replicas of partitions without a leader, and the election of one
known_topics      the topics that a client reads or writes, and when to ask for them again

Steps are generators: they yield an `Ask` or a `Pause`, are sent the response, and get a failure thrown in.
The asyncio driver (`cluster.connections`) and the blocking driver (`client.sync`) carry out the same steps.
"""
