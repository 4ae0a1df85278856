"""Commands that look into data directories and running brokers and change nothing.

dump, dump_rows, dump_tables             `ottla dump`: files as rows, rows as tables or JSON lines
coordinator_rows                         the records of groups and transactions in words
trace                                    `ottla trace`: one record's life
doctor                                   `ottla doctor`: what is wrong where, and what to do about it
data_directory_check, partition_check    a data directory, and the directory of one partition
broker_check                             a running broker and its cluster, seen by a client
security_check                           settings, files and rights that are open to others than they should be
running_security_check                   the same of a running cluster
tier_check                               a running broker's object store
segment_file                             segments and indexes, opened to read only

What is decided about a running cluster stands in client/admin/checks, which the console uses, too.
"""
