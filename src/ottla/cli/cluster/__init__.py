"""`ottla cluster`: commands over `ottla.localcluster`.

commands   up, down, kill, stop, start, pause, resume, partition, heal
growth     add, rebalance, drain
recover    partitions without a leader: what each replica has, an election
voters     the voters of the metadata quorum
status     the cluster as tables or JSON
local_gateway   a gateway beside the cluster, whose console starts and stops brokers
options    shared by all of them: the cluster's directory, one sentence on failure
"""
