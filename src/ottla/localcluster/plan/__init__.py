"""Plans, without processes, files or network.

cluster     the cluster to run, from what is asked for and from an earlier run
rebalance   which replicas to move so that brokers are even, or empty
"""
