"""The files of a log, apart from their content.

location           the directory, the disk and the file pool of one log
open_files         bounded handles
file_names         the names of a partition's files
checkpoint, uuids  Kafka's small text files, and how Kafka writes a uuid
"""
