"""Everything that changes a log's files.

append, replicated                                    batches from clients; from leaders and from the broker itself
writer, rolling, flush                                the end of the file, the next file, fsync
truncation, deletion                                  a follower's truncation; segments and logs that go
producer_lookup, producer_replay, producer_rewind     producer state: found in the log, rebuilt from it, truncated with it
"""
