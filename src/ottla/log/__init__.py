"""The log: one partition's batches on disk, in Apache Kafka's own format.

log, directory                     the doors: one log, and the root that holds many
append, replicated, validation     what comes in: from clients, from leaders and the broker itself
writing, rolling, flush            to the end of the file, to the next file, to the platter
reading, times                     from offsets and times to ranges of files
segment, segments, index           one file of batches with its indexes, and all of them in order
producer_state, producer_snapshot  idempotence and transactions, and how they are kept
recall, interrupted                what a producer snapshot forgot, found again in the log; what a bad disk interrupted
leader_epochs, checkpoint          which leader wrote what, and Kafka's small text files
loading, leftovers, replay         from a directory to a log
scanning, recovery                 the same after a crash, or with damaged files
retention, removal, truncation     what goes: planned and carried out; a follower's cut
cleaning, log_cleaning, swap       compaction: planned, begun, and put in place
cleaner and what it is made of     compaction: the work itself (cleaner_io, offset_map, record_spans, batch_cleaning,
                                   transaction_trail, cleaned_segment), done by cleaner_process for remote_cleaner
disk, open_files, names, uuids     the one interface to files, bounded handles, file names
"""
