"""The decisions of fetching. Pure.

fetch_plan, fetch_session                         the next request to a leader (KIP-227)
epoch_check                                       positions checked against the leader's epochs (KIP-320)
partition_reader, fetched_batches, record_batch   one partition's fetched batches, handed out record by record
record_filters                                    conditions on records, as people write them
"""
