"""Plans, without processes, files or network.

cluster            the cluster to run, from what is asked for and from an earlier run
security_settings  the settings of a secured cluster's brokers and clients
rebalance          which replicas to move so that brokers are even, or empty
"""
