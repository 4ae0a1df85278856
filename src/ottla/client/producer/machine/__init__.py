"""The producer's decisions. Pure.

accumulator, topic_queues,            records become batches, batches leave in order
partition_queue, batch
batch_answers, idempotence            the meaning of an answer for a batch and its sequence numbers
transaction, transaction_errors,      the states of a transactional producer, its failures, its requests
transaction_requests
prepared_transaction                  a transaction between the two phases of its commit
memory_ledger                         the batches that are not done, and their bytes
partitioners                          the partition of a record
settings, delivery_report             the producer's settings; reports and errors for senders
"""
