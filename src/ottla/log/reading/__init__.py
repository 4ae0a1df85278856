"""From offsets and timestamps to ranges of files.

reader       ranges of whole batches
timestamps   the offset of a timestamp
aborted_transactions   the transactions that a reader of committed records must skip
"""
