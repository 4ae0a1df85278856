"""The consumer's decisions. Pure.

settings          the consumer's settings, checked
partition_turns   whose records come next
processing_plan   which records are done, and what may be committed
"""
