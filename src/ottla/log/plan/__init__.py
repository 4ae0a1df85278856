"""Decisions about what a log keeps, and whether it can be written. Pure.

retention        segments that are too old or too many
memory_release   the oldest segments of all logs, when the memory for data is nearly full
dirtiest_log     which log is compacted next, how far, and in which groups of segments
directory_state  whether the disk takes writes, and when to look again
"""
