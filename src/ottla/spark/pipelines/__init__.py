"""`ottla pipeline`: Spark's declarative pipelines with topics as sources and sinks.

- `project` is the file that a user writes, `template` what `init` copies, `graph` what the definitions say,
  `order` what would run too early.
- `session`, `master` and `remote` are the Spark below it: a driver here, a cluster's master, a Connect server
  somewhere.
- `run` makes one update; `listener` and `events` hear what happens in it, `flow_progress` and `failures`
  report it, `state` and `status` remember it.
- `catalog` and `remote_catalog` give tables back to a Spark that has forgotten them; `topics` and `context`
  are how steps meet brokers.
"""
