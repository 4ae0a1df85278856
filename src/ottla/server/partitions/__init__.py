"""The partitions that this broker hosts.

hosted_partition              one partition: its log and its replica's role
partition_counts              records and bytes of one partition since it is hosted here
followed_log                  one partition while another broker leads: appended to and truncated by its fetcher
tiered_part                   of one partition: its records in the object store, beside the local log
partition_table               all of them, by name and by topic id
flush_policy, waiters         of one partition: when it is flushed; the requests that wait for its news
acknowledgement               waiting until an append is flushed and replicated as asked
hosting                       opens, creates and removes partitions as the metadata says
memory_limit                  deletes the oldest segments of a broker whose data is in memory
directory_watch               whether the disk takes writes; the controller is told when that changes
flushing, file_removal        fsync and deletion, on threads
scrubbing                     closed segments read again, in search of damage
compaction, cleaning_thread   which log is compacted next, and the thread that has it done
"""
