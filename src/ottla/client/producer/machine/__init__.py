"""The producer's decisions. Pure.

accumulator, partition_queue, batch   records become batches, batches leave in order
batch_answers, idempotence            the meaning of an answer for a batch and its sequence numbers
memory_ledger                         the batches that are not done, and their bytes
partitioners                          the partition of a record
settings, delivery_report             the producer's settings; reports and errors for senders
"""
