"""Small things about files.

open_files         bounded handles
file_names         the names of a partition's files
checkpoint, uuids  Kafka's small text files, and how Kafka writes a uuid
"""
