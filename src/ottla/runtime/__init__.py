"""The edge to the world: what the simulation replaces so that everything above this room runs as shipped.

runtime          one object with all parts below, handed to a broker or a client by its constructor
clock            monotonic time (the event loop's) and the time of day
randomness       identifiers and jitter
threads          named thread pools for work that must not hold the event loop up
network          listening sockets, socket options, sendfile; connections are opened by the event loop
tls_socket       TLS over an accepted socket
tls_context      OpenSSL's contexts for listeners and clients
tls_failures     why TLS failed, in words
pem_files        certificates and keys from files and settings
certificate_authority  certificates made: an authority, brokers, clients (needs the package cryptography)
disk             files, directories and memory maps
unsynced_disk    the same, never forced to the disk
memory_disk      the same, with a limit, for a directory in memory
memory_directory a directory in memory, for the length of a process
directory_lock   one process per data directory
http_fetch       one HTTP request, for threads that may wait
secret_file      files that only their owner may read
rotating_lines   a file of lines that does not grow without end
workers          processes of Python modules that answer lines
object_store     objects in a store: the interface, and why a store failed
stores           where stores come from
obstore_store    the same through the package obstore: files, S3, Google, Azure
process          what the operating system says about this process
turns            long work on the event loop, a millisecond at a time
http_server      HTTP on a few threads, for monitoring only
profiler         a sampling profile of this process

The event loop belongs to the edge as well: coroutines, timers and connections run unchanged on the
simulation's loop.
"""
