"""What is decided about a topic's table, without a clock, a file or a socket.

definition     what a table of a topic is: format, value form, partitioning
table_offsets  how far a table is, as it stands in the table's own metadata
next_commit    which offset ranges the next commit takes, and when there is enough for one
seam           where table and log meet in one query
conditions     filters of a query, and what they say about partitions, offsets and times
small_files    which files to merge into larger ones
"""
