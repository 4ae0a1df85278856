"""The questions of an administrator: which broker is asked what, and what the answers mean. Pure.

topic_changes           creating, deleting and growing topics, deleting records
broker_questions        the cluster, its quorum and its disks; settings
partition_moves         reassignments and elections
group_questions         groups, their members and offsets
security_questions      access control lists, users, quotas
token_questions         delegation tokens
transaction_questions   transactions and the producers of partitions

Each function makes an `Inquiry`, which the client settles. What consumers and Spark ask as well is in
`client/cluster/machine`.
"""
