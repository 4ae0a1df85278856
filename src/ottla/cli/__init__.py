"""The command `ottla`: what people type and read.

main             the table of commands; a command's module is imported when the command is called
serve, broker_settings   `ottla serve`; where a broker's settings come from
broker_command   common to all commands that ask a broker: address, JSON or tables, one sentence on failure
name_values      options of the form NAME=VALUE
time_text        moments and durations as people write and read them
admin            `topics`, `configs`, `groups`
records          `produce`, `consume`, `bench`
inspect          `dump`, `doctor`
cluster          `cluster`: commands over the library `ottla.localcluster`
spark            `pipeline`, `audit`

The sub-rooms import the modules above them in this list and nothing of each other.
"""
