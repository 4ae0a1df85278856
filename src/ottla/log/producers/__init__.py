"""Producers as a log knows them: idempotence and transactions.

producer_state                      the state: epochs, last batches, open transactions
transactions                        the transactions that hold readers of committed records back
verification                        first batches of transactions, until their coordinator has answered
producer_snapshot, snapshot_files   the format of a snapshot, and the snapshots beside a log's segments
producer_lookup                     older batches of a producer, found in the log
producer_replay, producer_rewind    the state rebuilt from the log, and truncated with it
failed_writes                       producers with a batch that the disk did not take
sequence_gaps                       producers with a batch that has not come yet
"""
