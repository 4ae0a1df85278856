"""Compaction: each key's newest record stays.

log_compaction, swap                 the log's side: passes, and cleaned segments put in place
cleaner, segment_reader              the work: map the keys, write the records that stay
cleaned_segment                      a cleaned segment while it is written
worker_process, remote_cleaner       the cleaner in a process of its own, and the broker's end of it
plan                                 the decisions about batches and keys
"""
