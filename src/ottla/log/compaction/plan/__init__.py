"""Which records and markers compaction keeps. Pure.

batch_cleaning, record_spans   the records of a batch that stay, copied as bytes
offset_map                     each key's newest offset in a fixed amount of memory
transaction_trail              aborted transactions, and markers that are still needed
"""
