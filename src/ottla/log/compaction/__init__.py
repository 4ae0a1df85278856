"""Compaction: each key's newest record stays.

log_compaction, swap                 the log's side: passes, and cleaned segments put in place
cleaner, segment_reader              the work: learn the keys, write what stays
cleaned_segment                      a segment being written
worker_process, remote_cleaner       the cleaner in a process of its own, and the broker's end of it
plan                                 the decisions about batches and keys
"""
