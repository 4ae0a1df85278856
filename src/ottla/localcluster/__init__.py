"""Brokers as processes on one machine: started, killed, paused, cut off from each other, healed.

state            a cluster as DIR/cluster.json describes it: brokers, ports, settings, processes
cluster_plan     the cluster to run, from what was asked for and from an earlier run
ports            free ports for brokers
broker_process   the process of one broker
fleet            the processes of all brokers
proxy            the network between brokers and clients, with links that can be cut or slowed
supervisor       the process that runs a cluster and carries out commands
control          how other processes send commands to the supervisor
orphans          brokers whose supervisor was killed
status           what a cluster says about its brokers, quorum and partitions
rebalance_plan   which replicas to move so that brokers are even, or empty
replica_moves    carrying such a plan out through a client
"""
