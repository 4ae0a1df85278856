"""Everything that changes a log's files.

append, replicated     batches of clients; of leaders
coordinator_append     batches of this broker's coordinators: their records, and markers of transactions
writer, tail           the write at the end of the active segment, and the roll to the next one
durability, flush      the flushed offset; one flush
truncation             the end of a log removed
retention, deletion    segments taken out of a log; files that wait to be removed
"""
