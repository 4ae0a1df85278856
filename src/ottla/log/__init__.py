"""The log: one partition's batches on disk, in Apache Kafka's own format.

log, directory, state   the doors: one log, and the root that holds many; what a log's parts share
batch_validation        what a batch must be to be appended
files                   bounded handles, file names, Kafka's small text files
segments                one file of batches with its indexes, all of them in order, leader epochs
producers               idempotence and transactions: state, snapshots
writing                 append, roll, flush, truncate, delete
reading                 from offsets and timestamps to ranges of files
opening                 from a directory to a log, after a clean stop or a crash
plan                    which segments are too old, which log is compacted next; pure
compaction              the work of compaction, in a process of its own
"""
