"""The transaction coordinator as a replicated machine. Pure.

coordinator, commands, decision     the door, what is asked of it, and what it decides
metadata, records                   a transactional id and its states, and the records of __transaction_state
initialisation, adding, ending      InitProducerId, partitions that join, EndTxn and aborts by the coordinator
group_commit                        several transactions that are committed together (Ottla's own)
listing                             descriptions of transactions
"""
