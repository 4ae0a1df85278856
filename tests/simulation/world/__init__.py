"""A world in one thread, in which shipped brokers and clients run as processes on virtual time.

scheduler    virtual time, the seeded order in which processes run, the trace
process      the event loop of one process: timers, tasks, readers; it can be paused and killed
threads      thread pools whose work takes virtual time
network      who can reach whom, how long it takes; connections as two ordered ways
sockets      the ends of a connection as a listener, a server connection and a client transport see them
edge         the simulation's implementation of `ottla.runtime` for one process
node_disk    the disk of one node, which outlives its processes and fails on demand
node         one broker: its incarnations, its disk, its clock
"""
