"""From offsets and timestamps to ranges of files.

reader       ranges of whole batches
timestamps   the offset of a timestamp
"""
