"""The way to the cluster: callers act as themselves, by clients that are shared and bounded.

callers      which `Security` a caller's login becomes
clients      the clients of one caller: producer, administrator, readers
pool         the clients of all callers, at most so many, closed when idle
topics       what is known of topics, so that a name can be refused at once
group_lags   how far a group is behind, partition by partition
failures     errors of Kafka and of the network as problems for HTTP
"""
