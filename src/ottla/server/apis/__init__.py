"""One file per API family, with its handlers registered beside themselves; `table` finds the family of an
API.

produce, produce_shape, produce_verification, producer_ids        records in
transaction_markers, active_producers           the ends of transactions, and who writes them
fetch, fetch_wait, fetch_response, follower_fetch, leader_hints   records out, to clients and to followers
offsets, log_dirs                               offsets by time and epoch, record deletion, sizes on disk
groups, group_offsets, coordinator              consumer groups
transactional_offsets                           offsets that are committed with a transaction
sasl, user_scram_credentials                    logins, users and their SCRAM credentials
delegation_tokens                               logins that users hand on
topics, cluster, shown_topics, brokers, quorum, api_versions  metadata: changes, descriptions, nodes among themselves
altered_settings                                changes of settings, and certificates that are loaded again
client_telemetry, shown_clients                 metrics that clients push, taken and shown
acls, client_quotas                             access control lists; quotas
"""
