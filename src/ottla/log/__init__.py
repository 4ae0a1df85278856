"""The log: one partition's batches on disk, in Apache Kafka's own format.

disk          the one interface to files; the simulation puts its own under the same code
open_files    bounded descriptors and memory maps
index         offset and time index; segment: one .log with its indexes
validation    what a client may append; append: the hot path; reading: offsets and times to file ranges
producer_state, leader_epochs, checkpoint      what is kept beside the batches
loading, recovery                              from a directory to a log, after a clean stop and after a crash
retention     pure plans; log: the door to all of it; directory: the root that holds many logs
"""
