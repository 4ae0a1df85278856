"""The broker: everything between a socket and the machines that decide.

broker, assembly   the composition root: a node's life; its parts, and how they are joined
housekeeping, load_metrics   retention and checkpoints on a timer; load reports
process       a broker as a process: signals, and the end
memory        a broker whose data is in memory
net           listener, connections, receive buffers, the limit on open descriptors
gate          every request's way from its frame to its handler; sessions, and the services that handlers use
apis          one file per API family, each with its handlers registered beside themselves
answers       the leaf below: queued answers, answers that come later, watermarks that callers wait for
partitions    the partitions this broker hosts: append, read, flush, delete, compact
replicas      followers and leaders: fetchers, sessions of followers, proposals of ISR changes
monitoring    metrics, health and debugging over HTTP, for a broker that serves them
coordinators  group coordinators on the partitions of __consumer_offsets
quorum        the metadata quorum: member, log, snapshots, the controller, this broker's membership

Imports between these rooms have no cycle: net | apis -> gate -> coordinators, replicas -> partitions, quorum
-> answers. The broker alone joins net and apis: connections know no API.
"""
