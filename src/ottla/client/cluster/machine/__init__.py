"""The client core: which broker to ask, what to ask again, how long to wait, when to give up. Pure.

conversation         the machine: what it wants next (`Send`, `Pause`), and what it heard
known_cluster        the brokers, leaders and coordinators that a client has learned of
retries              the inquiry that is repeated until every item has its outcome
leaders              one question to the leader of each partition
coordinators         one question to the coordinator of each group
single_brokers       one question to any broker, to several, or to the broker that a resource names
topic_inquiries      topics, and the offsets of partitions
group_inquiries      committed offsets of groups
known_topics         the topics that a client reads or writes, and when to ask for them again

Steps are generators: they yield an `Ask` or a `Pause`, are sent the response, and get a failure thrown in. The asyncio
driver (`cluster.connections`) and the blocking one (`client.sync`) carry out the same steps.
"""
