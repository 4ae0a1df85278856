"""The edge to the world: what the simulation replaces so that everything above this room runs as shipped.

runtime          one object with all parts below, handed to a broker or a client by its constructor
clock            monotonic time (the event loop's) and the time of day
randomness       identifiers and jitter
threads          named thread pools for work that must not hold the event loop up
network          listening sockets, socket options, sendfile; connections are opened by the event loop
disk             files, directories and memory maps
directory_lock   one process per data directory
workers          processes of Python modules that answer lines
process          what the operating system says about this process

The event loop belongs to the edge as well: coroutines, timers and connections run unchanged on the
simulation's loop.
"""
