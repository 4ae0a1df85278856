"""The log: one partition's batches on disk, in Apache Kafka's own format.

log, directory      the doors: one log, and the data directory with many
closing             the clean close of many logs at once
status              whether a log can be written, and where it could not be read
batch_validation    the checks on a client's batch
files               where a log's files are, bounded handles, file names, Kafka's small text files
segments            one file of batches with its indexes; all of them in order: the log's extent
producers           idempotence and transactions: state, snapshots, replay
reading             from offsets and timestamps to ranges of files
writing             append, roll, flush, truncate, delete
opening             from a directory to a log, after a clean stop or a crash
plan                which segments are too old, which log is compacted next; pure
scrubbing           segments read again in search of damage, and damaged ones set aside
compaction          the passes of a log, and the work in a process of its own
"""
