"""Decisions about what a log keeps. Pure.

retention      segments that are too old or too many
dirtiest_log   which log is compacted next, how far, and in which groups of segments
"""
