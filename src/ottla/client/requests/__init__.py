"""Plain values, and their translation to and from Kafka's messages. Pure.

metadata            brokers, topics, partitions and leaders
brokers, quorum     DescribeCluster, DescribeLogDirs, UnregisterBroker; DescribeQuorum
features            the levels of features
topics, configs     creating, deleting and growing topics; settings
reassignments       moving replicas, electing leaders
leaderless          partitions without a leader, and the logs of their replicas
offsets             ListOffsets and DeleteRecords
coordinators        FindCoordinator
groups              listing, describing and deleting groups, removing members
group_offsets       committed offsets
transactions        listing, describing and aborting transactions, the producers of partitions
delegation_tokens   logins that users hand on
acls, users, quotas access control lists; users with a password; how much clients may do
consumer_protocol   Kafka's formats of subscriptions and assignments
membership          the member id and generation of a group member
member_events       the events and effects of a group member's machine
member_requests     the requests of a group member
outcomes            a value or an error for each item of a request
"""
