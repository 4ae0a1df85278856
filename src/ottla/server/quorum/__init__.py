"""The metadata quorum: Raft and the controller over the metadata log, and this broker's place in the cluster.

quorum, opening                       the door, how a node opens its part
replica_directories                   the request that says in which log directory replicas are
founding, preparation                 how the first quorum is founded; directories prepared before that
member, tenant, metadata_log          the Raft member, the consumer of what it commits, its log
vote_writer, state_file               its vote, written to disk in order
snapshots, snapshot_writer            snapshots of the metadata
fetched_snapshot, replay              a snapshot from the leader; the image that replay builds
commands, forwarding                  changes of metadata: queued on the controller, forwarded to it
voter_changes                         voters added and removed by the leader
unclean_recovery                      partitions without a trusted replica: the most complete one is elected
controller_duties, broker_membership  what only the controller does; registration and heartbeats of this broker
producer_ids, peers, peer_login       blocks of producer ids; connections to the other nodes, and how they log in
"""
