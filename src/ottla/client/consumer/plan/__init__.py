"""The consumer's decisions. Pure.

settings          the consumer's settings, checked
partition_turns   the order in which partitions hand out records
processing_plan   which records are done, and which offsets may be committed
"""
