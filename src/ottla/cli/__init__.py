"""The command `ottla`: what people type and read.

main             the table of commands; a command's module is imported when the command is called
serve, format    `ottla serve`, `ottla format`
gateway          `ottla gateway`
gateway_process  `ottla serve --gateway`: a gateway beside the broker
secured_broker   `ottla serve --secure`: the settings of DIR/security
security         `ottla security`: certificates, an administrator and settings for a secured cluster
schemas          `ottla schemas`: the schemas of a registry
broker_settings  where a broker's settings come from
broker_command   common to all commands that ask a broker: address, JSON or tables, one sentence on failure
client_config    `--config`, `--profile`: how to reach a secured cluster
name_values      options of the form NAME=VALUE
waiting_partitions   why a partition has no leader, and the command that decides
time_text        moments and durations as people write and read them
admin            `topics`, `configs`, `features`, `groups`, `transactions`, `acls`, `users`, `quotas`
records          `produce`, `consume`, `bench`
inspect          `dump`, `doctor`
tiers            `tiers`: what an object store holds of topics
cluster          `cluster`: commands over the library `ottla.localcluster`
spark            `pipeline`, `audit`

The sub-rooms import the modules above them in this list and nothing of each other.
"""
