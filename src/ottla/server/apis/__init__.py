"""One file per API family, with its handlers registered beside themselves; `table` finds the family of an
API.

produce, produce_shape, producer_ids            records in
fetch, fetch_wait, fetch_response, follower_fetch, leader_hints   records out, to clients and to followers
offsets, log_dirs                               offsets by time and epoch, record deletion, sizes on disk
groups, group_offsets, coordinator              consumer groups
topics, cluster, brokers, quorum, api_versions  metadata: changes, descriptions, nodes among themselves
"""
