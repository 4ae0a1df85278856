"""From a directory to a log.

loading, leftovers    the files that are there, and the remains of interrupted work
scanning, recovery    batches checked after a crash, indexes rebuilt
"""
