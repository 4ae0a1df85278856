"""Replication of one partition (docs/replication.md). Pure.

partition, isr              the partition as its leader sees it: high watermark, in-sync replicas
follower, follower_state    as a follower sees it: what to fetch, when to truncate
divergence                  where two logs diverge
fetch_session               incremental fetch sessions (KIP-227)
"""
