"""Brokers as processes on one machine: started, killed, paused, cut off from each other, healed.

launch               starting a cluster: for the length of a block, or detached
cluster              a running cluster by its directory: its state, and commands to its supervisor
broker_process       a single broker without a supervisor
supervisor, control  the process that runs a cluster; how other processes send it commands
fleet, supervised_process   the broker processes of a supervisor: all of them, and one
proxy                the network between brokers and clients, with links that can be cut or slowed
socket_owner         which process has the other end of a connection
orphans, process_identity   brokers whose supervisor was killed; whether a process is still the same one
state, state_file    a cluster as a value, and DIR/cluster.json with its lock
plan                 the cluster to run; the moves that even replicas out, or empty brokers (pure)
security_files       DIR/security: certificates, an administrator and settings for a secured cluster
ports                free ports for brokers
status               what a cluster says about its brokers, quorum and partitions
replica_moves        carrying out a plan of moves through a client
waiting              waiting for a condition with a deadline

The messages of ClusterError are sentences for people and name the commands of `ottla cluster`.
"""
