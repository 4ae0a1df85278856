"""The metadata quorum: Raft and the controller over the metadata log, and this broker's place in the cluster.

quorum, opening, founding             the door, how a node opens its part, how the first quorum is founded
member, metadata_log, state_file      the Raft member, its log, its vote on disk
snapshots, snapshot_writer, replay    snapshots of the metadata, and the image that replay builds
commands, forwarding                  changes of metadata: queued on the controller, forwarded to it
controller_duties, broker_membership  what only the controller does; registration and heartbeats of this broker
producer_ids, peers                   blocks of producer ids; connections to the other nodes
"""
