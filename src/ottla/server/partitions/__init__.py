"""The partitions that this broker hosts.

hosted_partition              one partition: its log, its replica's role, its waiting readers; and the table of all of them
hosting                       opens, creates and removes partitions as the metadata says
flushing, file_removal        fsync and deletion, on threads
commit_wait                   waiting for the high watermark
compaction, cleaning_thread   which log is compacted next, and the thread that has it done
"""
