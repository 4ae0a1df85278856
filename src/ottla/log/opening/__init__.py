"""From a directory to a log.

loading, leftovers    the parts of a log from its files, and the remains of interrupted work
scanning, recovery    batches checked after a crash, damage removed
"""
