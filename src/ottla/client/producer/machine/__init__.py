"""The producer's decisions. Pure.

accumulator, partition_queue, batch   records become batches, batches leave in order
batch_answers, idempotence            what an answer means for a batch and its sequence numbers
memory_ledger                         the bytes that wait, and callers that wait for room
partitioners                          which partition a record goes to
settings, delivery_report             the producer's settings; reports and errors for senders
"""
