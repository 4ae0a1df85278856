"""Files of batches.

extent                         the offsets of one log: its segments and log start offset
segment, segment_list, index   one segment with its indexes, and all of them in order
transaction_index              the aborted transactions of one segment
leader_epochs                  which leader wrote which offsets
lost_offset                    the first offset that a crash lost, kept until the leader is known
truncation_job                 making a truncation durable
"""
